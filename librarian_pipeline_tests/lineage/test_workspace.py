import os
from pathlib import Path

import pyarrow as pa
import pytest

from librarian_pipeline.lineage.graph import Item, items
from librarian_pipeline.lineage.outdated import State, verdicts
from librarian_pipeline.storage.provenance import fingerprint
from librarian_pipeline.storage.warehouse import Failure
from librarian_pipeline.workspace import PUBLISHED, Workspace

LONG_AGO_NS = 1_700_000_000_000_000_000
NOTES = "---\ntitle: The kettle\nlanguage: {language}\n---\n# Steam\n{text}\n"
BROKEN = "---\nlanguage: [\n---\n# Steam\n"


def write(path: Path, content: str, mtime_ns: int = LONG_AGO_NS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    os.utime(path, ns=(mtime_ns, mtime_ns))


def write_notes(
    home: Path, episode: str, language: str = "en", text: str = "It sings.", mtime_ns: int = LONG_AGO_NS
) -> None:
    write(home / "notes" / f"{episode}.md", NOTES.format(language=language, text=text), mtime_ns)


def derive(workspace: Workspace, item: Item) -> None:
    """Writes an output that differs whenever its inputs do."""
    world = workspace.observe_item(item, workspace.archive.discover())
    inputs = world.inputs(item)
    table = pa.table({"made_of": [fingerprint(inputs)]})
    record = workspace.warehouse.write(item.asset, item.partition, table, recipe=world.recipes[item], inputs=inputs)
    if item == PUBLISHED:
        workspace.snapshots.serve(workspace.snapshots.build(workspace.warehouse, [record], {}))


def fail(workspace: Workspace, item: Item) -> None:
    world = workspace.observe_item(item, workspace.archive.discover())
    failure = Failure(fingerprint(world.recipes[item]), world.inputs(item), f"{item} is broken", "mend it")
    workspace.warehouse.record_failure(item.asset, item.partition, failure)


def derive_all(workspace: Workspace) -> None:
    for item in items(workspace.archive.discover().episodes):
        derive(workspace, item)


def not_fresh(home: Path) -> dict[str, State]:
    """Observed as by a later process."""
    found = verdicts(Workspace.open(home).observe())
    return {str(item): verdict.state for item, verdict in found.items() if verdict.state is not State.FRESH}


def stale(home: Path) -> set[str]:
    return {name for name, state in not_fresh(home).items() if state is State.STALE}


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("LIBRARIAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An archive of two episodes, one with audio and one with a published transcript, in which all is fresh."""
    write(tmp_path / "librarian.toml", '[embeddings]\nmodel = "char-ngram"\n')
    write(tmp_path / "audio" / "ep01.mp3", "sound")
    write(tmp_path / "transcripts" / "ep02.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nHello.\n")
    write(tmp_path / "gold" / "gold_set.json", "[]")
    for episode in ("ep01", "ep02"):
        write_notes(tmp_path, episode)
    workspace = Workspace.open(tmp_path)
    derive_all(workspace)
    assert not_fresh(tmp_path) == {}
    return workspace


SOURCES = ["audio/ep01.mp3", "notes/ep01.md", "transcripts/ep02.vtt", "gold/gold_set.json"]
AUDIO_READERS = {"audio[ep01]", "notes[ep01]"}


@pytest.mark.parametrize("source", SOURCES)
def test_touching_a_file_changes_nothing(workspace, source):
    os.utime(workspace.home / source)
    assert not_fresh(workspace.home) == {}


@pytest.mark.parametrize(
    ("source", "what"),
    list(zip(SOURCES, [AUDIO_READERS, {"notes[ep01]"}, {"transcripts[ep02]"}, {"gold_set"}], strict=True)),
)
def test_editing_a_file_makes_exactly_what_reads_it_stale(workspace, source, what):
    path = workspace.home / source
    write(path, path.read_text() + "\nmore\n", LONG_AGO_NS + 10**10)
    assert stale(workspace.home) == what


def test_an_edit_within_the_clocks_step_is_not_missed(workspace):
    path = workspace.home / "audio" / "ep01.mp3"
    path.write_text("noise")
    stat = path.stat()
    derive_all(workspace)
    write(path, "music", stat.st_mtime_ns)
    assert "audio[ep01]" in stale(workspace.home)


def test_a_missing_gold_set_is_an_input_like_any_other(workspace):
    (workspace.home / "gold" / "gold_set.json").unlink()
    assert stale(workspace.home) == {"gold_set"}


def test_another_suffix_of_the_same_audio_is_a_change_as_the_catalogue_names_the_file(workspace):
    (workspace.home / "audio" / "ep01.mp3").rename(workspace.home / "audio" / "ep01.ogg")
    assert stale(workspace.home) == {"audio[ep01]"}


def test_a_new_episode_is_missing_and_makes_the_archives_assets_stale_only_by_what_it_says(workspace):
    write_notes(workspace.home, "ep03")
    found = not_fresh(workspace.home)
    assert {name for name, state in found.items() if state is State.MISSING} == {
        f"{asset}[ep03]" for asset in ("audio", "notes", "transcripts", "chunks", "embeddings")
    }
    assert stale(workspace.home) == {"episodes"}


# Tags, which stand in for the times of notes


def test_without_notes_the_audio_is_an_input_of_the_notes(workspace):
    (workspace.home / "notes" / "ep01.md").unlink()
    derive_all(workspace)
    write(workspace.home / "audio" / "ep01.mp3", "sound with chapters", LONG_AGO_NS + 1)
    assert stale(workspace.home) == AUDIO_READERS


@pytest.mark.parametrize(("episode", "sources"), [("ep01", {"file", "tags"}), ("ep02", {"file"})])
def test_the_audio_is_an_input_of_notes_where_there_is_any(workspace, episode, sources):
    item = Item("notes", episode)
    assert set(workspace.observe_item(item, workspace.archive.discover()).sources[item]) == sources


# The language that notes declare


def test_a_declared_language_is_an_input_of_the_transcript(workspace):
    write_notes(workspace.home, "ep01", language="cs", mtime_ns=LONG_AGO_NS + 1)
    assert stale(workspace.home) == {"notes[ep01]", "transcripts[ep01]", "episodes"}


def test_other_words_in_the_notes_are_no_input_of_the_transcript(workspace):
    write_notes(workspace.home, "ep01", text="It whistles.", mtime_ns=LONG_AGO_NS + 1)
    assert stale(workspace.home) == {"notes[ep01]"}


def test_an_episode_without_any_speech_does_not_depend_on_the_language(workspace):
    write_notes(workspace.home, "ep03")
    derive_all(workspace)
    write_notes(workspace.home, "ep03", language="cs", mtime_ns=LONG_AGO_NS + 1)
    assert stale(workspace.home) == {"notes[ep03]", "episodes"}


def test_broken_notes_leave_the_language_that_was_recorded_so_that_nothing_is_transcribed_again(workspace):
    write_notes(workspace.home, "ep01", language="cs", mtime_ns=LONG_AGO_NS + 1)
    derive_all(workspace)
    write(workspace.home / "notes" / "ep01.md", BROKEN, LONG_AGO_NS + 2)
    assert "transcripts[ep01]" not in not_fresh(workspace.home)


def test_broken_notes_of_a_new_episode_declare_no_language(workspace):
    write(workspace.home / "audio" / "ep03.mp3", "sound")
    write(workspace.home / "notes" / "ep03.md", BROKEN)
    item = Item("transcripts", "ep03")
    world = workspace.observe_item(item, workspace.archive.discover())
    assert world.sources[item] == {"language": "undeclared"}


def test_notes_that_are_gone_declare_no_language(workspace):
    (workspace.home / "notes" / "ep01.md").unlink()
    assert {"notes[ep01]", "transcripts[ep01]"} <= stale(workspace.home)


# Where a transcript comes from


def test_a_published_transcript_is_no_input_while_the_audio_is_preferred(workspace):
    write(workspace.home / "transcripts" / "ep01.vtt", "WEBVTT\n")
    assert not_fresh(workspace.home) == {}


def test_preferring_published_transcripts_changes_only_the_episodes_that_have_both(workspace):
    write(workspace.home / "transcripts" / "ep01.vtt", "WEBVTT\n")
    write(workspace.home / "librarian.toml", '[embeddings]\nmodel = "char-ngram"\n[transcripts]\nprefer = "published"\n')
    assert stale(workspace.home) == {"transcripts[ep01]"}


# Failures


def test_an_episodes_failure_is_told_in_one_line(workspace):
    fail(workspace, Item("notes", "ep01"))
    assert workspace.source_failures(["ep01", "ep02"]) == {"ep01": "notes[ep01] is broken: mend it"}


def test_a_new_failure_makes_the_catalogue_stale(workspace):
    fail(workspace, Item("notes", "ep01"))
    assert "episodes" in stale(workspace.home)


def test_a_file_that_is_put_back_as_it_was_no_longer_counts_as_unreadable(workspace):
    write(workspace.home / "notes" / "ep01.md", BROKEN, LONG_AGO_NS + 1)
    fail(workspace, Item("notes", "ep01"))
    write_notes(workspace.home, "ep01", mtime_ns=LONG_AGO_NS + 2)
    assert workspace.source_failures(["ep01"]) == {}


def test_a_failure_of_the_whole_archive_is_told_beside_those_of_the_episodes(workspace):
    fail(workspace, Item("gold_set"))
    fail(workspace, Item("notes", "ep01"))
    assert set(workspace.failures(["ep01", "ep02"])) == {Item("gold_set"), Item("notes", "ep01")}


def test_a_failure_of_an_episode_that_is_gone_is_not_told(workspace):
    fail(workspace, Item("transcripts", "ep02"))
    (workspace.home / "transcripts" / "ep02.vtt").unlink()
    (workspace.home / "notes" / "ep02.md").unlink()
    assert workspace.source_failures(["ep02"]) == {}


# Departed episodes


def test_an_episode_whose_files_are_all_gone_has_departed_with_all_its_partitions(workspace):
    fail(workspace, Item("notes", "ep02"))
    (workspace.home / "transcripts" / "ep02.vtt").unlink()
    (workspace.home / "notes" / "ep02.md").unlink()
    departed = workspace.departed(workspace.archive.discover())
    assert {item.asset for item in departed} == {"audio", "notes", "transcripts", "chunks", "embeddings"}
    assert {item.partition for item in departed} == {"ep02"}


def test_an_episode_that_still_has_a_file_has_not_departed(workspace):
    (workspace.home / "transcripts" / "ep02.vtt").unlink()
    assert workspace.departed(workspace.archive.discover()) == []


def test_tidying_drops_what_departed_episodes_left_and_nothing_else(workspace):
    for path in ("transcripts/ep02.vtt", "notes/ep02.md"):
        (workspace.home / path).unlink()
    workspace.tidy(prune=True)
    assert workspace.warehouse.partitions("chunks") == ["ep01"]
    assert workspace.warehouse.partitions("bm25_raw_index") == ["all"]


def test_a_departed_episode_makes_the_archives_assets_stale(workspace):
    for path in ("transcripts/ep02.vtt", "notes/ep02.md"):
        (workspace.home / path).unlink()
    assert {"bm25_raw_index", "bm25_stem_index", "vector_index", "episodes"} <= stale(workspace.home)


# One item


def test_one_item_is_observed_as_it_is_among_all(workspace):
    write_notes(workspace.home, "ep01", language="cs", mtime_ns=LONG_AGO_NS + 1)
    discovery = workspace.archive.discover()
    everything = workspace.observe(discovery)
    for item in items(discovery.episodes):
        alone = workspace.observe_item(item, discovery)
        assert (alone.recipes[item], alone.inputs(item)) == (everything.recipes[item], everything.inputs(item))


def test_a_damaged_output_is_missing_and_not_an_input(workspace):
    workspace.warehouse.path("notes", "ep01").write_bytes(b"PAR1")
    found = not_fresh(workspace.home)
    assert found["notes[ep01]"] is State.MISSING
