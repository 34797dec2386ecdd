"""An episode's transcript from wherever it comes: spoken words, or a published file."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from librarian_pipeline.archive.published import read_published
from librarian_pipeline.settings import AudioSettings, WhisperSettings
from librarian_pipeline.speech.decode import decode
from librarian_pipeline.speech.samples import as_float
from librarian_pipeline.speech.settling import require_settled
from librarian_pipeline.speech.transcribe import Transcriber
from librarian_pipeline.storage.schemas import TRANSCRIPTS

OnProgress = Callable[[float, float], None]


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


def published_transcript(path: Path, episode_id: str, language: str | None) -> pa.Table:
    """A published transcript; columns as in `schemas.TRANSCRIPTS`. Raises `SourceError` where it holds no cue."""
    return pa.Table.from_pylist(read_published(path, episode_id, language).rows, schema=TRANSCRIPTS)


@lru_cache(maxsize=1)
def _transcriber(settings: WhisperSettings) -> Transcriber:
    """The model stays loaded from one episode of a run to the next."""
    return Transcriber(settings)
