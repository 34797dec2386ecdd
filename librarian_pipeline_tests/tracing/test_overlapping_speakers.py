"""Where speakers overlap, segments of several passages are numbered in between each other."""

from pathlib import Path

from librarian_pipeline.tracing.trace import trace_passages
from librarian_pipeline_tests.tracing.conftest import SETTINGS, update

CUES = f"""WEBVTT

00:00.000 --> 02:00.000
<v Ann>{" ".join(f"word{n}" for n in range(240))}.

00:10.000 --> 00:14.000
<v Ben>Early he said so.

01:50.000 --> 01:54.000
<v Ben>Late he said so.
"""


def test_only_segments_that_meet_the_passage_in_time_are_those_it_was_cut_from(tmp_path: Path) -> None:
    (tmp_path / "transcripts").mkdir()
    (tmp_path / "transcripts" / "duet.vtt").write_text(CUES)
    (tmp_path / "librarian.toml").write_text(SETTINGS)
    workspace = update(tmp_path)
    rows = workspace.warehouse.read("chunks", "duet").to_pylist()
    interleaved = [row for row in rows if row["last_segment"] - row["first_segment"] == 2]
    assert len(rows) > 2
    assert interleaved
    for row in rows:
        [passage] = trace_passages(workspace, row["chunk_id"]).passages
        said = {segment.segment_idx for segment in passage.segments if segment.text in row["text"]}
        whole = {segment.segment_idx for segment in passage.segments if segment.is_whole}
        assert said == whole
        assert {segment.segment_idx for segment in passage.segments} == {0, *said}
