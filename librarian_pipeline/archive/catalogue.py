"""The catalogue: what the archive knows of each episode, in one row."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from librarian_pipeline.archive.layout import EpisodeFiles
from librarian_pipeline.archive.notes import FrontMatter, read_front_matter
from librarian_pipeline.archive.tags import read_tags
from librarian_pipeline.errors import SourceError
from librarian_pipeline.storage.schemas import EPISODES

SILENT_TRANSCRIPT = "the published transcript says that nobody speaks"
NOTES_ONLY = "neither audio nor a published transcript: only its notes can be searched"


def build_catalogue(
    episodes: Iterable[EpisodeFiles],
    audio: pa.Table,
    transcripts: pa.Table,
    chunks: pa.Table,
    failures: Mapping[str, str],
    findings: Mapping[str, Sequence[Mapping[str, str]]],
) -> pa.Table:
    """Columns as in `schemas.EPISODES`. `failures`, by episode: what couldn't be read; `findings`: what checks found."""
    audio_rows = {row["episode_id"]: row for row in audio.to_pylist()}
    heard = transcripts.filter(pc.invert(transcripts["excluded"]))  # what Whisper made up isn't speech
    spoken = _by_episode(heard.group_by("episode_id").aggregate([("end_ms", "max")]))
    languages = _main_languages(heard)
    counts = _by_episode_and_layer(chunks)
    rows = []
    for files in episodes:
        episode_id = files.episode_id
        header = _header(files)
        transcript = spoken.get(episode_id)
        audio_row = audio_rows.get(episode_id)
        status, reason = _status(files, audio_row, transcript is not None, failures.get(episode_id))
        rows.append(
            {
                "episode_id": episode_id,
                "title": header.title,
                "published_at": header.published_at,
                "language": header.language or languages.get(episode_id),
                "duration_ms": _duration_ms(audio_row, transcript),
                "status": status,
                "status_reason": reason,
                "n_chunks_notes": counts.get((episode_id, "notes"), 0),
                "n_chunks_transcript": counts.get((episode_id, "transcript"), 0),
                "findings": list(findings.get(episode_id, ())),
            }
        )
    return pa.Table.from_pylist(rows, schema=EPISODES)


def _header(files: EpisodeFiles) -> FrontMatter:
    """What the notes say; title and date as in the tags of the audio where the notes have none."""
    header = _front_matter(files)
    if files.audio is None or (header.title and header.published_at):
        return header
    tags = read_tags(files.audio)
    return replace(header, title=header.title or tags.title, published_at=header.published_at or tags.published_at)


def _front_matter(files: EpisodeFiles) -> FrontMatter:
    if files.notes is None:
        return FrontMatter()
    try:
        return read_front_matter(files.notes)
    except SourceError:  # reported by the step that derives the notes
        return FrontMatter()


def _status(
    files: EpisodeFiles, audio_row: Mapping[str, Any] | None, has_speech: bool, failure: str | None
) -> tuple[str, str | None]:
    if failure is not None:
        return "unreadable", failure
    if audio_row is None and has_speech:
        return "ok", None
    if audio_row is None:
        return ("no_speech", SILENT_TRANSCRIPT) if files.published is not None else ("no_audio", NOTES_ONLY)
    if audio_row["status"] == "ok" and not has_speech:
        return "no_speech", "nobody speaks in the audio"
    return audio_row["status"], audio_row["status_reason"]


def _duration_ms(audio_row: Mapping[str, Any] | None, transcript: Mapping[str, Any] | None) -> int | None:
    """The audio's length; that of a published transcript where there is no audio."""
    decoded: int | None = audio_row["duration_decoded_ms"] if audio_row else None
    return decoded or (transcript["end_ms_max"] if transcript else None)


def _by_episode(table: pa.Table) -> dict[str, dict[str, Any]]:
    return {row["episode_id"]: row for row in table.to_pylist()}


def _main_languages(transcripts: pa.Table) -> dict[str, str]:
    """The language of most segments of each episode."""
    counts = transcripts.group_by(["episode_id", "language"]).aggregate([([], "count_all")])
    rows = sorted(counts.to_pylist(), key=lambda row: (row["count_all"], row["language"]))
    return {row["episode_id"]: row["language"] for row in rows}


def _by_episode_and_layer(chunks: pa.Table) -> dict[tuple[str, str], int]:
    counts = chunks.group_by(["episode_id", "layer"]).aggregate([([], "count_all")])
    return {(row["episode_id"], row["layer"]): row["count_all"] for row in counts.to_pylist()}
