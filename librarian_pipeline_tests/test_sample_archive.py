"""The sample archive must agree with its sources, and its gold queries must be honest paraphrases."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import simplemma

from librarian_pipeline_tests.sample_archive import gold, scripts
from librarian_pipeline_tests.sample_archive.__main__ import REPO_ROOT

ARCHIVE = REPO_ROOT / "data"
QUERIES = gold.load_source()
EPISODES = scripts.episode_ids()
PUBLISHED = [episode for episode in EPISODES if scripts.load_script(episode).render != "opus"]

ENGLISH = """
about after again also been before being between both come could does doing down each even ever every from
give have here into just keep like made make many more most much must only other over really same some such
take than that their them then there these they thing this those through very want were what when where
whether which while will with without would your yours
"""
CZECH = """
aby ale jako jaký jaké jakého jakém jakým jejich jeho jenom jestli který která které mezi moci není něco někdo
před přes proč proto protože sebe svůj také taky tam tedy takže takový tento toho tohle tomu vlastně všechno
"""
STOPWORDS = {"en": set(ENGLISH.split()), "cs": set(CZECH.split())}


def content_lemmas(text: str, language: str) -> set[str]:
    """Return the lemmas that carry meaning: longer than three letters and not in the stop list."""
    words = re.findall(r"\w+", text.lower())
    lemmas = {simplemma.lemmatize(word, lang=language).lower() for word in words}
    return {lemma for lemma in lemmas if len(lemma) > 3} - STOPWORDS[language]


def seconds(clock: str) -> float:
    """Read hh:mm:ss with a fraction after a point or a comma."""
    hours, minutes, rest = clock.replace(",", ".").split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def read_published(path: Path) -> list[tuple[float, str, str]]:
    """Read our own transcripts back, without the code that wrote them: start, speaker, text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return [(s["startTime"], s["speaker"], s["body"]) for s in json.loads(text)["segments"]]
    pattern = r"<v ([^>]+)>(.+)" if path.suffix == ".vtt" else r"([^:]+): (.+)"
    cues = re.findall(rf"^(\S+) --> \S+\n{pattern}$", text, flags=re.MULTILINE)
    return [(seconds(start), speaker, body) for start, speaker, body in cues]


def test_gold_set_is_what_its_source_resolves_to() -> None:
    built = (ARCHIVE / "gold" / "gold_set.json").read_text(encoding="utf-8")
    assert built == gold.gold_text(gold.resolve(QUERIES, ARCHIVE))


def test_times_in_notes_are_true() -> None:
    for notes in (ARCHIVE / "notes").glob("*.md"):
        gold.check_note_times(notes, scripts.load_times(notes.stem))


@pytest.mark.parametrize("query", QUERIES, ids=[query["id"] for query in QUERIES])
def test_paraphrases_share_no_content_lemma_with_their_span(query: dict[str, Any]) -> None:
    if query["kind"] != "paraphrase":
        return
    asked = content_lemmas(query["query"], query["language"])
    for span in query["relevant"]:
        told = content_lemmas(gold.span_text(span, ARCHIVE, query["id"]), query["language"])
        assert not asked & told


@pytest.mark.parametrize("episode", EPISODES)
def test_timelines_follow_their_scripts_and_only_go_forward(episode: str) -> None:
    times = scripts.load_times(episode)
    script = scripts.load_script(episode)
    assert [line.text for line in times] == [line.text for line in script.lines]
    assert all(line.start_ms < line.end_ms for line in times)
    assert all(a.end_ms <= b.start_ms for a, b in pairwise(times))


@pytest.mark.parametrize("episode", PUBLISHED)
def test_published_transcripts_read_back_as_their_scripts(episode: str) -> None:
    script = scripts.load_script(episode)
    cues = read_published(ARCHIVE / "transcripts" / f"{episode}.{script.render}")
    assert [(who, text) for _, who, text in cues] == [(script.speakers[line.speaker], line.text) for line in script.lines]
    starts_ms = [round(start * 1000) for start, _, _ in cues]
    assert starts_ms == [line.start_ms for line in scripts.load_times(episode)]
