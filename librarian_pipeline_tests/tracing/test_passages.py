"""From a passage back to the segments, the second of audio, the files, and the versions of all between."""

from pathlib import Path
from typing import Any

import pytest

from librarian_pipeline.cache import file_sha256
from librarian_pipeline.derivation.derive import derive
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.storage.provenance import fingerprint
from librarian_pipeline.tracing.passage import PassageTrace
from librarian_pipeline.tracing.trace import Trace, trace_passages
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.tracing.conftest import EXCLUDED, HEARD, LONG, SETTINGS, TAGGED, Silent, update

ON_THE_WAY = [
    *(f"{asset}[{{}}]" for asset in ("audio", "notes", "transcripts", "chunks", "embeddings")),
    *("bm25_raw_index", "bm25_stem_index", "vector_index"),
]


def traced(workspace: Workspace, chunk_id: str) -> PassageTrace:
    [passage] = trace_passages(workspace, chunk_id).passages
    return passage


def states(trace: Trace) -> dict[str, str]:
    return {output.item: output.state for output in trace.outputs}


@pytest.fixture(scope="module")
def traces(archive: Workspace, chunks: list[dict[str, Any]]) -> dict[str, Trace]:
    """Of every passage of the archive."""
    return {row["chunk_id"]: trace_passages(archive, row["chunk_id"]) for row in chunks}


# What every passage leads to


def test_every_spoken_passage_leads_to_segments_that_hold_its_words_and_bound_its_times(
    traces: dict[str, Trace], chunks: list[dict[str, Any]]
) -> None:
    spoken = [row for row in chunks if row["layer"] == "transcript"]
    assert len(spoken) > 10
    for row in spoken:
        [passage] = traces[row["chunk_id"]].passages
        said = [word for segment in passage.segments for word in segment.text.split()]
        assert set(row["text"].split()) <= set(said), row["chunk_id"]
        assert min(segment.start_ms for segment in passage.segments) <= row["start_ms"]
        assert max(segment.end_ms for segment in passage.segments) >= row["end_ms"]
        whole = [segment for segment in passage.segments if segment.is_whole]
        assert all(segment.text in row["text"] for segment in whole)
        assert passage.remarks == ()


def test_every_passage_of_notes_leads_to_the_section_that_holds_its_words(
    archive: Workspace, traces: dict[str, Trace], chunks: list[dict[str, Any]]
) -> None:
    written = [row for row in chunks if row["layer"] == "notes"]
    assert len(written) > 10
    for row in written:
        section = traces[row["chunk_id"]].passages[0].section
        assert section is not None
        stored = archive.warehouse.read("notes", row["episode_id"]).to_pylist()[section.section_idx]
        assert row["text"] in " ".join((stored["text"] or stored["heading"]).split())
        assert (section.heading, section.start_ms) == (row["heading"], row["start_ms"])


def test_every_passage_names_the_versions_recipes_and_rows_that_are_stored(
    archive: Workspace, traces: dict[str, Trace], chunks: list[dict[str, Any]]
) -> None:
    for row in chunks:
        trace = traces[row["chunk_id"]]
        assert [output.item for output in trace.outputs] == [name.format(row["episode_id"]) for name in ON_THE_WAY]
        for output in trace.outputs:
            asset, _, partition = output.item.rstrip("]").partition("[")
            record = archive.warehouse.committed(asset, partition or None)
            assert record is not None
            assert (output.version, output.rows, output.recipe) == (record.version, record.rows, record.recipe)
            assert output.recipe_fingerprint == fingerprint(record.recipe)
            assert len(output.inputs) + output.n_other_inputs == len(record.inputs)
            assert {one.name: one.version for one in output.inputs}.items() <= record.inputs.items()
        assert trace.is_current
        assert set(states(trace).values()) == {"fresh"}


def test_the_inputs_on_the_way_are_the_versions_of_the_outputs_before(archive: Workspace) -> None:
    versions: dict[str, str | None] = {}
    seen = []
    for output in trace_passages(archive, "ep06:t000").outputs:
        seen += [one.name for one in output.inputs if one.name in versions]
        assert all(one.version == versions[one.name] for one in output.inputs if one.name in versions)
        versions[output.item] = output.version
    assert set(seen) == {f"{asset}[ep06]" for asset in ("audio", "notes", "transcripts", "chunks", "embeddings")}


def test_every_passage_tells_how_it_is_indexed(
    archive: Workspace, traces: dict[str, Trace], chunks: list[dict[str, Any]]
) -> None:
    postings = archive.warehouse.read("bm25_raw_index").to_pylist()
    for row in chunks:
        indexed = traces[row["chunk_id"]].passages[0].indexed
        assert indexed.bm25_raw_terms == sum(entry["tf"] for entry in postings if entry["chunk_id"] == row["chunk_id"])
        assert indexed.bm25_stem_terms == indexed.bm25_raw_terms
        assert indexed.normalizer == "simplemma"
        assert indexed.vector is not None
        assert indexed.vector.model == "char-ngram"


# Where it is heard, or written


def test_what_was_heard_leads_to_the_second_of_the_audio_file(archive: Workspace) -> None:
    passage = traced(archive, f"{HEARD}:t001")
    assert passage.audio is not None
    assert archive.warehouse.read("chunks", HEARD).to_pylist()[-1]["start_ms"] >= passage.audio.start_ms > 0
    assert (passage.audio.start_ms, passage.audio.end_ms) == (passage.start_ms, passage.end_ms)
    assert passage.audio.path == "audio/ep03.opus"
    assert passage.audio.sha256 == file_sha256(archive.home / passage.audio.path)
    assert (passage.audio.codec, passage.audio.duration_ms) == ("opus", 90_125)
    assert passage.published is None
    assert passage.segments[0].avg_logprob == -0.25


def test_what_was_published_leads_to_the_transcript_file(archive: Workspace) -> None:
    passage = traced(archive, "ep07:t001")
    assert passage.audio is None
    assert passage.published is not None
    assert passage.published.path == "transcripts/ep07.srt"
    assert passage.published.sha256 == file_sha256(archive.home / "transcripts" / "ep07.srt")
    assert {segment.source for segment in passage.segments} == {"srt"}


def test_what_is_kept_out_of_a_passage_is_told_apart(archive: Workspace) -> None:
    passage = traced(archive, f"{HEARD}:t000")
    assert [segment.segment_idx for segment in passage.left_out] == [EXCLUDED]
    assert passage.left_out[0].flags == ("invented_in_silence",)
    assert EXCLUDED not in [segment.segment_idx for segment in passage.segments]


def test_a_segment_that_is_cut_between_words_is_there_in_part(archive: Workspace) -> None:
    parts = {segment.segment_idx for segment in traced(archive, f"{HEARD}:t000").segments if not segment.is_whole}
    assert parts == {LONG}


def test_a_note_with_a_time_is_heard_at_that_second(archive: Workspace) -> None:
    passage = traced(archive, f"{HEARD}:n002")
    assert passage.citation == "Ep. ep03 @ 00:40"
    assert passage.audio is not None
    assert (passage.audio.start_ms, passage.audio.end_ms) == (40_000, None)


def test_a_note_without_a_time_leads_to_its_section_alone(archive: Workspace) -> None:
    passage = traced(archive, f"{HEARD}:n004")
    assert passage.audio is None
    assert passage.section is not None
    assert (passage.section.source.path, passage.section.is_from_tags) == ("notes/ep03.md", False)
    assert passage.section.source.sha256 == file_sha256(archive.home / "notes" / "ep03.md")


def test_a_chapter_leads_to_the_tags_of_the_audio(archive: Workspace) -> None:
    passage = traced(archive, f"{TAGGED}:n000")
    assert passage.section is not None
    assert passage.section.is_from_tags
    assert passage.section.source.path == "audio/tagged.opus"
    assert passage.section.source.sha256 == file_sha256(archive.home / "audio" / "tagged.opus")


def test_chapters_after_notes_without_times_are_told_from_them(archive_copy: Workspace) -> None:
    (archive_copy.home / "notes" / f"{TAGGED}.md").write_text("# Tea\nIt sings.\n")
    workspace = update(archive_copy.home)
    sections = [traced(workspace, f"{TAGGED}:n00{i}").section for i in range(2)]
    assert [section and section.is_from_tags for section in sections] == [False, True]
    assert [section and section.source.path for section in sections] == ["notes/tagged.md", "audio/tagged.opus"]


def test_a_transcript_of_another_edition_leads_to_its_segments_but_to_no_second(archive_copy: Workspace) -> None:
    cue = "WEBVTT\n\n00:01.000 --> 00:06.000\nA heron stood on the weir.\n\n20:01.000 --> 20:06.000\nIt left.\n"
    (archive_copy.home / "transcripts" / f"{HEARD}.vtt").write_text(cue)
    (archive_copy.home / "librarian.toml").write_text(SETTINGS + '[transcripts]\nprefer = "published"\n')
    passage = traced(update(archive_copy.home), f"{HEARD}:t000")
    assert passage.audio is None
    assert "A heron stood on the weir." in [segment.text for segment in passage.segments]
    assert "another edition" in passage.remarks[0]


# What has changed since


def test_what_is_out_of_date_says_why_and_what_came_of_it_still_leads_back(archive_copy: Workspace) -> None:
    notes = archive_copy.home / "notes" / "ep06.md"
    notes.write_text(notes.read_text() + "\n## More\nAnother oven.\n")
    trace = trace_passages(Workspace.open(archive_copy.home), "ep06:t000")
    [stale] = [output for output in trace.outputs if output.state == "stale"]
    assert (stale.item, stale.reasons) == ("notes[ep06]", ("file changed",))
    assert [(one.name, one.is_current) for one in stale.inputs] == [("file", False)]
    assert not trace.is_current
    assert trace.passages[0].segments
    assert states(trace)["chunks[ep06]"] == "waiting"


def test_an_index_of_an_older_version_of_the_passage_is_not_taken_for_one_of_this(archive_copy: Workspace) -> None:
    notes = archive_copy.home / "notes" / "ep06.md"
    notes.write_text(notes.read_text() + "\n## More\nAnother oven.\n")
    workspace = Workspace.open(archive_copy.home)
    for asset in ("notes", "chunks"):
        derive(workspace, Item(asset, "ep06"), Silent())
    passage = traced(workspace, "ep06:n000")
    assert (passage.indexed.bm25_raw_terms, passage.indexed.bm25_stem_terms, passage.indexed.vector) == (None, None, None)
    assert [remark.split()[0] for remark in passage.remarks] == ["bm25_raw_index", "bm25_stem_index", "vector_index"]
    assert traced(workspace, "ep07:t000").remarks == ()


def test_segments_of_a_later_transcript_are_not_taken_for_those_of_the_passage(archive_copy: Workspace) -> None:
    """As where a transcript came out so bad that nothing is derived from it, and the earlier passages stay."""
    warehouse = archive_copy.warehouse
    record = warehouse.committed("transcripts", "ep06")
    assert record is not None
    beside = {"speech_spans": warehouse.read("speech_spans", "ep06")}
    worse = warehouse.read("transcripts", "ep06").slice(1)
    written = {"recipe": record.recipe, "inputs": record.inputs, "measures": {"times": 1.0}}
    warehouse.write("transcripts", "ep06", worse, beside=beside, **written)
    trace = trace_passages(archive_copy, "ep06:t000")
    assert trace.passages[0].segments == ()
    assert "transcripts[ep06] was derived anew" in trace.passages[0].remarks[0]
    assert states(trace)["chunks[ep06]"] == "blocked"


def test_a_passage_of_an_episode_whose_files_are_gone_says_so(archive_copy: Workspace) -> None:
    for path in ("notes/ep06.md", "transcripts/ep06.vtt"):
        Path(archive_copy.home / path).unlink()
    trace = trace_passages(Workspace.open(archive_copy.home), "ep06:t000")
    assert trace.passages[0].segments
    assert trace.passages[0].published is not None
    assert trace.passages[0].published.path is None
    assert {output.reasons for output in trace.outputs if "[" in output.item} == {("the files of ep06 are gone",)}
    assert not trace.is_current


@pytest.mark.parametrize("asset", ["bm25_raw_index", "bm25_stem_index", "vector_index"])
def test_an_index_that_is_not_there_is_told_as_missing(archive_copy: Workspace, asset: str) -> None:
    archive_copy.warehouse.path(asset).unlink()
    trace = trace_passages(archive_copy, "ep06:t000")
    [missing] = [output for output in trace.outputs if output.version is None]
    assert (missing.item, missing.state, missing.reasons) == (asset, "missing", ("never derived",))
    assert trace.passages[0].remarks == (f"{asset} doesn't hold this version of the passage",)
