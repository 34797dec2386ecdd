"""Exactly what depends on a change is derived again: by the command, and by the runs that the daemon's sensor asks for."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from librarian_pipeline import run_command
from librarian_pipeline.defs.instance import open_instance
from librarian_pipeline.defs.update import update_through_dagster
from librarian_pipeline.derivation.updating import Update, bring_up_to_date, in_this_process
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.planning import Planner, Scope
from librarian_pipeline.progress import Progress
from librarian_pipeline.text import lemmas
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.defs.daemon import Daemon
from librarian_pipeline_tests.pipeline.small_archive import (
    SENTENCES,
    SETTINGS,
    add_audio,
    add_notes,
    add_published,
    small_archive,
    use_stand_in_transcriber,
    write_gold,
)
from librarian_pipeline_tests.silent import Silent

BM25 = {"bm25_raw_index", "bm25_stem_index"}
SCORES = {"eval_scores", "published_index"}
REDUCE = {*BM25, "vector_index", "episodes", *SCORES}


def of(episode: str, *assets: str) -> set[str]:
    return {f"{asset}[{episode}]" for asset in assets}


def setting(old: str, new: str) -> Callable[[Path, pytest.MonkeyPatch], None]:
    def change(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert old in SETTINGS
        (home / "librarian.toml").write_text(SETTINGS.replace(old, new))

    return change


def more_settings(text: str) -> Callable[[Path, pytest.MonkeyPatch], None]:
    return lambda home, monkeypatch: (home / "librarian.toml").write_text(SETTINGS + text) and None


def audio_content(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_audio(home, "heard", 4)


def audio_touched(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(home / "audio" / "heard.wav", (1_000_000_000, 1_000_000_000))


def audio_renamed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "audio" / "heard.wav").rename(home / "audio" / "heard.WAV")


def notes_text(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_notes(home, "one", "A mill, and nothing behind it.")


def notes_title(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_notes(home, "one", "A mill, and the salt road behind it.", title="Another title")


def notes_line_ends(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "notes" / "one.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def published_transcript(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_published(home, "two", SENTENCES[3:])


def published_comment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "transcripts" / "two.vtt"
    path.write_text(path.read_text().replace("WEBVTT\n", "WEBVTT\n\nNOTE checked by hand\n"))


def gold_query(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gold(home, {"q1": ("who counted the flour", "one"), "q2": ("what hunts below the white ground", "two")})


def gold_layout(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "gold" / "gold_set.json"
    path.write_text(path.read_text().replace(", {", ",\n {"))


def simplemma_version(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lemmas, "version", lambda package: "99.0")


def episode_added(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_published(home, "three", SENTENCES[:3])


def episode_deleted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "transcripts" / "two.vtt").unlink()
    (home / "notes" / "two.md").unlink()


EVERY_EPISODE = ("heard", "one", "two")
CHANGES: dict[str, tuple[Callable[[Path, pytest.MonkeyPatch], None], set[str]]] = {
    "audio content": (
        audio_content,
        {*of("heard", "audio", "notes", "transcripts", "chunks", "embeddings"), *REDUCE},
    ),
    "audio touched": (audio_touched, set()),
    # What was heard is taken from the cache, and comes out equal; the catalogue alone is told of the name.
    "audio renamed": (audio_renamed, {*of("heard", "audio", "transcripts"), "episodes"}),
    "notes text": (notes_text, {*of("one", "notes", "chunks", "embeddings"), *REDUCE}),
    "notes title": (notes_title, {*of("one", "notes"), "episodes", "published_index"}),
    "notes line ends": (notes_line_ends, of("one", "notes")),
    "published transcript": (
        published_transcript,
        {*of("two", "transcripts", "chunks", "embeddings"), *REDUCE},
    ),
    "comment in a published transcript": (published_comment, of("two", "transcripts")),
    "gold query": (gold_query, {"gold_set", *SCORES}),
    "layout of the gold set": (gold_layout, {"gold_set"}),
    "stemmer name": (
        more_settings('[normalizer]\nname = "suffix"\n'),
        {"bm25_stem_index", *SCORES},
    ),
    # Scored again though the postings are equal: the version counts for the queries' lemmas too.
    "simplemma version": (simplemma_version, {"bm25_stem_index", *SCORES}),
    "embedding model": (
        setting('model = "char-ngram"', 'model = "all-MiniLM-L6-v2"'),
        {
            *(item for id in EVERY_EPISODE for item in of(id, "embeddings")),
            "vector_index",
            "eval_scores",
            "episodes",
            "published_index",
        },
    ),
    "Whisper settings": (
        more_settings("[whisper]\nbeam_size = 1\n"),
        {*of("heard", "transcripts", "chunks", "embeddings"), *REDUCE},
    ),
    "Whisper settings that change nothing in the end": (
        more_settings("[transcripts]\nblock_s = 700\n"),
        of("heard", "transcripts"),
    ),
    "chunk rule": (
        setting("target_s = 20", "target_s = 10"),
        {
            *(item for id in EVERY_EPISODE for item in of(id, "chunks")),
            *(item for id in ("one", "two") for item in of(id, "embeddings")),
            *REDUCE,
        },
    ),
    "RRF depth": (more_settings("[fusion]\ndepth = 2\n"), {*SCORES}),
    "episode added": (
        episode_added,
        {*of("three", "audio", "notes", "transcripts", "chunks", "embeddings"), *REDUCE},
    ),
    # Its query has nothing left to be answered by, which is a gate that fails.
    "episode deleted": (episode_deleted, REDUCE - {"published_index"}),
}


@dataclass
class Recorder:
    """Notes what a command derives."""

    derived: list[Item] = field(default_factory=list)

    def update(self, workspace: Workspace, planner: Planner, progress: Progress) -> Update:
        update = update_through_dagster(workspace, planner, progress)
        self.derived.extend(update.derived)
        return update


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small archive, up to date."""
    home = small_archive(tmp_path_factory.mktemp("small") / "home")
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_stand_in_transcriber(monkeypatch)
        workspace = Workspace.open(home)
        update = bring_up_to_date(workspace, Planner(Scope()), Silent(), in_this_process(workspace, Silent()))
    assert not update.errors
    assert not update.left
    with open_instance(home / "dagster_home", workspace.settings.dagster):
        return home


@pytest.fixture
def home(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_stand_in_transcriber(monkeypatch)
    return Path(shutil.copytree(template, tmp_path / "home"))


def by_the_command(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[Item]:
    """What `librarian run` derives."""
    recorder = Recorder()
    monkeypatch.setattr("librarian_pipeline.defs.update.update_through_dagster", recorder.update)
    run_command.run_archive(Workspace.open(home), Scope())
    return recorder.derived


def by_the_daemon(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[Item]:
    """What the runs derive that the sensor asks for."""
    with open_instance(home / "dagster_home", Workspace.open(home).settings.dagster) as instance:
        return Daemon(home, instance).settle()


@pytest.mark.parametrize("derive", [by_the_command, by_the_daemon])
@pytest.mark.parametrize("name", CHANGES)
def test_exactly_what_depends_on_a_change_is_derived_again(
    name: str,
    derive: Callable[[Path, pytest.MonkeyPatch], list[Item]],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change, expected = CHANGES[name]
    change(home, monkeypatch)
    derived = [str(item) for item in derive(home, monkeypatch)]
    assert sorted(derived) == sorted(expected)
    assert derive(home, monkeypatch) == []
