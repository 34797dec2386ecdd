"""An episode's transcript from wherever it comes: spoken words, or a published file."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from librarian_pipeline.archive.published import read_published
from librarian_pipeline.settings import CheckSettings, Settings, TranscriptSettings, WhisperSettings
from librarian_pipeline.speech.decode import decode
from librarian_pipeline.speech.transcribe import Transcriber, Transcript
from librarian_pipeline.storage.schemas import SPEECH_SPANS, TRANSCRIPTS

OnProgress = Callable[[float, float], None]


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

    Raises `SourceError` where the file is no audio, `ModelNotFoundError` where there are no weights.
    """
    transcriber = _transcriber(settings.whisper, settings.transcripts, settings.checks)
    found = transcriber.transcribe(decode(path).samples, episode_id, language, on_progress)
    spans = [{"episode_id": episode_id, "start_ms": start, "end_ms": end} for start, end in found.speech]
    return TranscribedFile(
        segments=pa.Table.from_pylist(found.rows, schema=TRANSCRIPTS),
        speech=pa.Table.from_pylist(spans, schema=SPEECH_SPANS),
        transcript=found,
    )


def published_transcript(path: Path, episode_id: str, language: str | None) -> pa.Table:
    """A published transcript; columns as in `schemas.TRANSCRIPTS`, of which `decoding_pass` is NULL: nothing was decoded.

    Raises `SourceError` where it holds no cue.
    """
    return pa.Table.from_pylist(read_published(path, episode_id, language).rows, schema=TRANSCRIPTS)


@lru_cache(maxsize=1)
def _transcriber(whisper: WhisperSettings, transcripts: TranscriptSettings, checks: CheckSettings) -> Transcriber:
    """The model stays loaded from one episode of a run to the next."""
    return Transcriber(whisper, transcripts, checks)
