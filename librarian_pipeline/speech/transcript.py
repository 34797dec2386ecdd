"""An episode's transcript from wherever it comes: spoken words, or a published file."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from librarian_pipeline.archive.published import Flag, is_other_edition, read_published
from librarian_pipeline.settings import CheckSettings, Settings, TranscriptSettings, WhisperSettings
from librarian_pipeline.speech.decode import decode
from librarian_pipeline.speech.settling import require_settled
from librarian_pipeline.speech.transcribe import Transcriber, Transcript
from librarian_pipeline.storage.schemas import SPEECH_SPANS, TRANSCRIPTS

OnProgress = Callable[[float, float], None]

_LENGTHS = ["duration_decoded_ms", "duration_last_packet_ms", "duration_header_ms"]


@dataclass(frozen=True)
class TranscribedFile:
    """A transcript as tables: `segments` has the columns of `schemas.TRANSCRIPTS`, `speech` those of `SPEECH_SPANS`."""

    segments: pa.Table
    speech: pa.Table
    transcript: Transcript


def transcribe_file(
    path: Path, episode_id: str, language: str | None, settings: Settings, on_progress: OnProgress | None = None
) -> TranscribedFile:
    """What is said in an audio file. No segments where nobody speaks.

    Raises `SourceError` where the file is no audio, `DeferredError` where it is still being written, `ModelNotFoundError`
    where there are no weights.
    """
    transcriber = _transcriber(settings.whisper, settings.transcripts, settings.checks)
    with require_settled(path, settings.audio):
        samples = decode(path, settings.audio).samples
    found = transcriber.transcribe(samples, episode_id, language, on_progress)
    spans = [{"episode_id": episode_id, "start_ms": start, "end_ms": end} for start, end in found.speech]
    return TranscribedFile(
        segments=pa.Table.from_pylist(found.rows, schema=TRANSCRIPTS),
        speech=pa.Table.from_pylist(spans, schema=SPEECH_SPANS),
        transcript=found,
    )


def published_transcript(
    path: Path, episode_id: str, language: str | None, audio: pa.Table, max_edition_gap_s: float
) -> tuple[pa.Table, dict[str, int]]:
    """A published transcript, with columns as in `schemas.TRANSCRIPTS`, and its counts (see `PublishedTranscript`).

    `audio` is the episode's part of that table. Where the transcript ends more than `max_edition_gap_s` seconds from it,
    every row is flagged `wrong_edition`. Raises `SourceError` where the file holds no cue.
    """
    transcript = read_published(path, episode_id, language)
    end_ms = max((row["end_ms"] for row in transcript.rows), default=None)
    lengths = [row[column] for row in audio.select(_LENGTHS).to_pylist() for column in _LENGTHS]
    if end_ms is not None and is_other_edition(end_ms, lengths, max_edition_gap_s):
        for row in transcript.rows:
            row["flags"].append(str(Flag.WRONG_EDITION))
    return pa.Table.from_pylist(transcript.rows, schema=TRANSCRIPTS), transcript.counts


@lru_cache(maxsize=1)
def _transcriber(whisper: WhisperSettings, transcripts: TranscriptSettings, checks: CheckSettings) -> Transcriber:
    """The model stays loaded from one episode of a run to the next."""
    return Transcriber(whisper, transcripts, checks)
