"""An episode's transcript from wherever it comes: spoken words, or a published file."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from librarian_pipeline.archive.published import Flag, is_other_edition, read_published
from librarian_pipeline.settings import AudioSettings, WhisperSettings
from librarian_pipeline.speech.decode import decode
from librarian_pipeline.speech.samples import as_float
from librarian_pipeline.speech.settling import require_settled
from librarian_pipeline.speech.transcribe import Transcriber
from librarian_pipeline.storage.schemas import TRANSCRIPTS

OnProgress = Callable[[float, float], None]

_LENGTHS = ["duration_decoded_ms", "duration_last_packet_ms", "duration_header_ms"]


def transcribe_file(
    path: Path,
    episode_id: str,
    language: str | None,
    settings: WhisperSettings,
    limits: AudioSettings,
    on_progress: OnProgress | None = None,
) -> pa.Table:
    """What is said in an audio file; columns as in `schemas.TRANSCRIPTS`. No rows where nobody speaks.

    Raises `SourceError` where the file is no audio, `DeferredError` where it is still being written, `ModelNotFoundError`
    where there are no weights.
    """
    with require_settled(path, limits):
        samples = decode(path, limits).samples
    rows = _transcriber(settings).transcribe(as_float(samples), episode_id, language, on_progress)
    return pa.Table.from_pylist(rows, schema=TRANSCRIPTS)


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
def _transcriber(settings: WhisperSettings) -> Transcriber:
    """The model stays loaded from one episode of a run to the next."""
    return Transcriber(settings)
