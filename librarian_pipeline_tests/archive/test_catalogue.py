from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mutagen.id3 import ID3, TDRC, TIT2

from librarian_pipeline.archive.catalogue import NOTES_ONLY, SILENT_TRANSCRIPT, build_catalogue
from librarian_pipeline.archive.layout import EpisodeFiles
from librarian_pipeline.storage.schemas import AUDIO, CHUNKS, EPISODES, TRANSCRIPTS


def files(episode: str = "ep01", notes: Path | None = None) -> EpisodeFiles:
    return EpisodeFiles(episode, None, notes, None)


def notes_with(tmp_path: Path, front_matter: str) -> Path:
    path = tmp_path / "ep01.md"
    path.write_text(f"---\n{front_matter}\n---\nWords.\n", encoding="utf-8")
    return path


def audio(
    status: str = "ok", reason: str | None = None, duration_ms: int | None = 60_000, episode: str = "ep01"
) -> pa.Table:
    row = {"episode_id": episode, "duration_decoded_ms": duration_ms, "status": status, "status_reason": reason}
    return pa.Table.from_pylist([row], schema=AUDIO)


def segment(end_ms: int = 50_000, language: str = "en", excluded: bool = False, episode: str = "ep01") -> dict[str, Any]:
    return {"episode_id": episode, "end_ms": end_ms, "language": language, "excluded": excluded}


def catalogue(
    *episodes: EpisodeFiles,
    audio_rows: pa.Table | None = None,
    segments: tuple[dict[str, Any], ...] = (),
    passages: tuple[tuple[str, str], ...] = (),
    failures: dict[str, str] | None = None,
    findings: dict[str, list[dict[str, str]]] | None = None,
) -> list[dict[str, Any]]:
    table = build_catalogue(
        episodes or (files(),),
        AUDIO.empty_table() if audio_rows is None else audio_rows,
        pa.Table.from_pylist(list(segments), schema=TRANSCRIPTS),
        pa.Table.from_pylist([{"episode_id": episode, "layer": layer} for episode, layer in passages], schema=CHUNKS),
        failures or {},
        findings or {},
    )
    assert table.schema == EPISODES
    return table.to_pylist()


def status(**inputs: Any) -> tuple[str, str | None]:
    (row,) = catalogue(**inputs)
    return row["status"], row["status_reason"]


def test_an_episode_whose_audio_speaks_is_ok():
    assert status(audio_rows=audio(), segments=(segment(),)) == ("ok", None)


def test_an_episode_with_only_a_published_transcript_is_ok():
    assert status(segments=(segment(),)) == ("ok", None)


def test_an_episode_with_only_notes_has_no_audio():
    assert status() == ("no_audio", NOTES_ONLY)


def test_an_episode_whose_published_transcript_holds_no_speech_is_no_speech():
    (row,) = catalogue(EpisodeFiles("ep01", None, None, Path("ep01.vtt")))
    assert (row["status"], row["status_reason"]) == ("no_speech", SILENT_TRANSCRIPT)


def test_audio_in_which_nobody_speaks_is_no_speech():
    assert status(audio_rows=audio()) == ("no_speech", "nobody speaks in the audio")


def test_audio_of_which_every_segment_was_made_up_is_no_speech():
    segments = (segment(excluded=True), segment(excluded=True))
    assert status(audio_rows=audio(), segments=segments) == ("no_speech", "nobody speaks in the audio")


def test_a_single_real_segment_among_made_up_ones_is_speech():
    assert status(audio_rows=audio(), segments=(segment(excluded=True), segment())) == ("ok", None)


@pytest.mark.parametrize("speech", [(), (segment(),)], ids=["without speech", "with speech"])
@pytest.mark.parametrize("state", ["partial", "unreadable"])
def test_audio_that_is_lost_in_part_or_whole_says_so_with_its_reason(state, speech):
    assert status(audio_rows=audio(state, "3 packets are damaged"), segments=speech) == (state, "3 packets are damaged")


def test_a_source_that_cannot_be_read_makes_the_episode_unreadable_whatever_else_it_has():
    found = status(audio_rows=audio(), segments=(segment(),), failures={"ep01": "ep01.md: line 3: mend it"})
    assert found == ("unreadable", "ep01.md: line 3: mend it")


def test_another_episodes_failure_is_not_this_ones():
    assert status(segments=(segment(),), failures={"ep02": "broken"}) == ("ok", None)


def test_title_date_and_language_come_from_the_notes(tmp_path):
    (row,) = catalogue(files(notes=notes_with(tmp_path, "title: The kettle\ndate: 2024-03-05\nlanguage: cs")))
    assert (row["title"], row["published_at"], row["language"]) == ("The kettle", "2024-03-05", "cs")


def test_a_declared_language_wins_over_the_transcripts(tmp_path):
    (row,) = catalogue(files(notes=notes_with(tmp_path, "language: cs")), segments=(segment(language="en"),))
    assert row["language"] == "cs"


def test_without_a_declared_language_it_is_the_transcripts():
    assert catalogue(segments=(segment(language="cs"),))[0]["language"] == "cs"


def test_notes_that_cannot_be_read_leave_the_header_empty(tmp_path):
    (row,) = catalogue(files(notes=notes_with(tmp_path, "language: [")))
    assert (row["title"], row["language"]) == (None, None)


def tagged(tmp_path: Path) -> Path:
    path = tmp_path / "ep01.mp3"
    tags = ID3()
    tags.add(TIT2(encoding=3, text=["Tagged"]))
    tags.add(TDRC(encoding=3, text=["2023-01-02"]))
    tags.save(path)
    return path


def test_what_the_notes_leave_out_of_title_and_date_comes_from_the_tags_of_the_audio(tmp_path):
    notes = notes_with(tmp_path, "title: The kettle")
    (row,) = catalogue(EpisodeFiles("ep01", tagged(tmp_path), notes, None), audio_rows=audio())
    assert (row["title"], row["published_at"]) == ("The kettle", "2023-01-02")


def test_without_notes_title_and_date_come_from_the_tags_of_the_audio(tmp_path):
    (row,) = catalogue(EpisodeFiles("ep01", tagged(tmp_path), None, None), audio_rows=audio())
    assert (row["title"], row["published_at"]) == ("Tagged", "2023-01-02")


def test_without_notes_and_tags_there_is_no_title(tmp_path):
    (tmp_path / "ep01.mp3").write_bytes(b"ID3 is not what follows")
    (row,) = catalogue(EpisodeFiles("ep01", tmp_path / "ep01.mp3", None, None), audio_rows=audio())
    assert (row["title"], row["published_at"]) == (None, None)


def test_the_length_is_that_of_the_audio():
    assert catalogue(audio_rows=audio(duration_ms=60_000), segments=(segment(end_ms=50_000),))[0]["duration_ms"] == 60_000


@pytest.mark.parametrize("audio_rows", [None, audio("unreadable", "no audio", None)], ids=["no audio", "unreadable audio"])
def test_without_audio_the_length_is_that_of_the_transcript(audio_rows):
    (row,) = catalogue(audio_rows=audio_rows, segments=(segment(end_ms=9_000), segment(end_ms=50_000)))
    assert row["duration_ms"] == 50_000


def test_passages_are_counted_by_layer():
    passages = (("ep01", "notes"), ("ep01", "transcript"), ("ep01", "transcript"), ("ep02", "notes"))
    (row,) = catalogue(passages=passages)
    assert (row["n_chunks_notes"], row["n_chunks_transcript"]) == (1, 2)


def test_there_is_a_row_for_each_episode_in_order_even_with_nothing_derived():
    rows = catalogue(files("ep02"), files("ep01"), segments=(segment(episode="ep01"),))
    assert [(row["episode_id"], row["status"]) for row in rows] == [("ep02", "no_audio"), ("ep01", "ok")]


def test_an_archive_without_episodes_is_an_empty_catalogue():
    table = build_catalogue([], AUDIO.empty_table(), TRANSCRIPTS.empty_table(), CHUNKS.empty_table(), {}, {})
    assert table.equals(EPISODES.empty_table())
