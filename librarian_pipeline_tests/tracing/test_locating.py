"""Which passages a person means, and what is said where there are none."""

import itertools
from typing import Any

import pytest

from librarian_pipeline.archive.timecodes import format_timecode
from librarian_pipeline.errors import UsageError
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline.tracing.locating import locate
from librarian_pipeline.workspace import Workspace


def ids(workspace: Workspace, asked: str) -> list[str]:
    return [row["chunk_id"] for row in locate(workspace.warehouse, asked)]


def test_every_passage_is_found_by_its_id(archive: Workspace, chunks: list[dict[str, Any]]) -> None:
    assert [ids(archive, row["chunk_id"]) for row in chunks] == [[row["chunk_id"]] for row in chunks]


@pytest.mark.parametrize("written", ["{}@{}", "{} @ {}", "Ep. {} @ {}"])
def test_every_passage_with_a_time_is_found_by_its_citation(
    archive: Workspace, chunks: list[dict[str, Any]], written: str
) -> None:
    timed = [row for row in chunks if row["start_ms"] is not None]
    assert len(timed) > 20
    for row in timed:
        assert row["chunk_id"] in ids(archive, written.format(row["episode_id"], format_timecode(row["start_ms"])))


def test_a_moment_that_two_passages_share_gives_both(archive: Workspace) -> None:
    spoken = [row for row in archive.warehouse.read("chunks", "ep07").to_pylist() if row["layer"] == "transcript"]
    one, other = next((a, b) for a, b in itertools.pairwise(spoken) if b["start_ms"] + 2_000 < a["end_ms"])
    moment = format_timecode(other["start_ms"] + 1_000)
    assert ids(archive, f"ep07@{moment}") == [one["chunk_id"], other["chunk_id"]]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("ep06:t099", "ep06 has no passage 'ep06:t099': it has ep06:n000 to ep06:n006, ep06:t000 to ep06:t007"),
        ("ep6:t001", "no passages of an episode 'ep6' were derived: did you mean ep06"),
        ("nobody@00:01", "no passages of an episode 'nobody' were derived: did you mean"),
        ("ep06", "'ep06' is no passage: name a passage, such as ep03:t004, or a moment"),
        ("", "'' is no passage"),
        ("ep06@soon", "'soon' is not a time: write it as 08:03"),
        ("ep06@59:00", r"ep06 has no passage at 59:00: the nearest is ep06:t00\d at"),
        ("../../etc:t001", "no passages of an episode"),
        ("\u0000:t001", "no passages of an episode"),
    ],
)
def test_what_isnt_there_is_told_with_what_is_nearest(archive: Workspace, asked: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        locate(archive.warehouse, asked)


def test_before_the_first_run_the_error_says_what_to_run(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="there is no index yet: run `librarian run --home"):
        locate(Warehouse(tmp_path / "warehouse"), "ep03:t004")
