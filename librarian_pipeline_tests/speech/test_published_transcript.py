"""A published transcript as the transcript of an episode that may have audio as well."""

from pathlib import Path

import pyarrow as pa
import pytest

from librarian_pipeline.speech.transcript import published_transcript
from librarian_pipeline.storage.schemas import AUDIO, TRANSCRIPTS

CAPTIONS = "WEBVTT\n\n00:01.000 --> 01:40.000\nTea is hot.\n\n01:40.000 --> 01:40.500\n[music]\n"


def transcript(folder: Path, audio: pa.Table) -> tuple[pa.Table, dict[str, int]]:
    path = folder / "ep07.vtt"
    path.write_text(CAPTIONS, encoding="utf-8")
    return published_transcript(path, "ep07", "en", audio, max_edition_gap_s=30)


def audio(decoded_ms: int | None, header_ms: int | None = None, status: str = "ok") -> pa.Table:
    row = {"episode_id": "ep07", "duration_decoded_ms": decoded_ms, "duration_header_ms": header_ms, "status": status}
    return pa.Table.from_pylist([row], schema=AUDIO)


def test_it_comes_with_the_counts_of_its_cues(tmp_path: Path) -> None:
    table, counts = transcript(tmp_path, AUDIO.empty_table())
    assert table.schema == TRANSCRIPTS
    assert (table.num_rows, counts) == (1, {"read": 2, "kept": 1, "rejected_non_speech": 1})


@pytest.mark.parametrize(
    ("audio_rows", "wrong"),
    [
        (AUDIO.empty_table(), False),
        (audio(120_000), False),
        (audio(131_000), True),
        (audio(60_000), True),
        (audio(60_000, header_ms=110_000, status="partial"), False),
        (audio(None, status="unreadable"), False),
    ],
    ids=["no audio", "near", "longer", "shorter", "damaged", "unreadable"],
)
def test_every_row_is_flagged_where_the_audio_is_of_another_edition(
    tmp_path: Path, audio_rows: pa.Table, wrong: bool
) -> None:
    table, _ = transcript(tmp_path, audio_rows)
    assert all(("wrong_edition" in flags) is wrong for flags in table["flags"].to_pylist())
    assert table["text"].to_pylist() == ["Tea is hot."]
