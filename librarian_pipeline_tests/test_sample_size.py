"""The sample archive is large and varied enough to measure on, and its figures leave room above and below."""

import json
import re
from collections import Counter
from typing import Any

import av
import pytest

from librarian_pipeline_tests.conftest import REPOSITORY, SAMPLE
from librarian_pipeline_tests.sample_archive import scripts

GOLD: list[dict[str, Any]] = json.loads((SAMPLE / "gold" / "gold_set.json").read_text(encoding="utf-8"))
SCRIPTS = {episode: scripts.load_script(episode) for episode in scripts.episode_ids()}


def test_there_are_55_episodes_in_two_languages() -> None:
    languages = Counter(script.language for script in SCRIPTS.values())
    assert len(SCRIPTS) == 55
    assert 38 <= languages["en"] <= 40
    assert 15 <= languages["cs"] <= 17


def test_ten_episodes_or_more_have_audio_of_one_and_a_half_to_three_minutes() -> None:
    minutes = {}
    for path in (SAMPLE / "audio").iterdir():
        with av.open(path) as container:
            assert container.duration is not None
            minutes[path.stem] = container.duration / 60_000_000
    assert {episode for episode, script in SCRIPTS.items() if script.render == "opus"} == set(minutes)
    languages = Counter(SCRIPTS[episode].language for episode in minutes)
    assert languages["en"] >= 7
    assert languages["cs"] >= 3
    assert 1.5 <= min(minutes.values()) <= max(minutes.values()) <= 3


def test_the_archive_is_below_25_megabytes() -> None:
    folders = ("audio", "demos", "gold", "notes", "transcripts")
    assert sum(path.stat().st_size for folder in folders for path in (SAMPLE / folder).iterdir()) < 25_000_000


def test_published_transcripts_come_in_every_format() -> None:
    formats = Counter(script.render for script in SCRIPTS.values() if script.render != "opus")
    assert set(formats) == {"vtt", "srt", "json"}
    assert min(formats.values()) >= 10


@pytest.mark.parametrize(
    ("kind", "least"),
    [("paraphrase", 200), ("keyword", 30), ("cross_lingual", 25), ("synthesis", 20), ("unanswerable", 30)],
)
def test_there_are_enough_queries_of_each_kind(kind: str, least: int) -> None:
    assert sum(query["kind"] == kind for query in GOLD) >= least


def test_paraphrases_ask_for_every_episode_in_its_language() -> None:
    asked = {
        (span["episode"], query["language"]) for query in GOLD if query["kind"] == "paraphrase" for span in query["relevant"]
    }
    assert asked >= {(episode, script.language) for episode, script in SCRIPTS.items()}


def test_a_synthesis_has_two_to_four_spans() -> None:
    assert {len(query["relevant"]) for query in GOLD if query["kind"] == "synthesis"} <= {2, 3, 4}


def test_cross_lingual_queries_ask_for_what_is_said_in_the_other_language() -> None:
    # In their own language there may be an answer as well.
    asked = [query for query in GOLD if query["kind"] == "cross_lingual"]
    assert all({SCRIPTS[span["episode"]].language for span in query["relevant"]} - {query["language"]} for query in asked)


def test_all_queries_about_an_episode_alone_are_in_one_split() -> None:
    splits: dict[str, set[str]] = {}
    for query in GOLD:
        if query["kind"] not in ("synthesis", "unanswerable"):
            splits.setdefault(query["relevant"][0]["episode"], set()).add(query["split"])
    assert {episode: found for episode, found in splits.items() if len(found) > 1} == {}
    assert {"dev"} in splits.values()
    assert {"test"} in splits.values()


def test_ten_queries_are_critical() -> None:
    assert sum(query.get("critical", False) for query in GOLD) == 10


def test_the_accepted_baseline_measured_these_questions() -> None:
    asked = {query["id"]: query["query"] for query in GOLD if query["relevant"]}
    accepted = json.loads((SAMPLE / "gold" / "baseline.json").read_text(encoding="utf-8"))["baseline"]["queries"]
    assert {query["id"]: query["query"] for query in accepted} == asked


def test_the_modes_disagree_and_none_finds_nearly_all() -> None:
    # That these figures are those of a run is held by `make test-sample`.
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^(bm25_raw|bm25_stem|dense|hybrid\w*)(?: \(default\))? +(\d\.\d\d)", readme, re.MULTILINE)
    first = {mode: float(recall) for mode, recall in rows}
    assert set(first) == {"bm25_raw", "bm25_stem", "dense", "hybrid", "hybrid_cc"}
    assert max(first.values()) - min(first.values()) >= 0.15
    assert max(first.values()) <= 0.95
