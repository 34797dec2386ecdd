"""A stand-in for faster-whisper's model: it says what a test tells it to, so that rules can be tested on their own."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from faster_whisper.transcribe import Segment, Word

from librarian_pipeline.settings import CheckSettings, TranscriptSettings, WhisperSettings
from librarian_pipeline.speech.transcribe import Transcriber

Says = Callable[..., list[Segment]]


def segment(start: float, end: float, text: str, seek: int = 0, **scores: float) -> Segment:
    """Its words share its time evenly."""
    known = {"avg_logprob": -0.2, "compression_ratio": 1.3, "no_speech_prob": 0.05, "temperature": 0.0, **scores}
    parts = text.split()
    step = (end - start) / max(1, len(parts))
    words = [Word(start + n * step, start + (n + 1) * step, f" {part}", 0.9) for n, part in enumerate(parts)]
    return Segment(id=1, seek=seek, start=start, end=end, text=f" {text}", tokens=[], words=words, **known)


def transcriber(
    says: Says, detect: Any = None, transcripts: TranscriptSettings | None = None, checks: CheckSettings | None = None
) -> Transcriber:
    """One whose model is the stand-in; `says` gets the samples and the options of a decoding."""
    made = Transcriber(WhisperSettings(), transcripts, checks)

    def transcribe(samples: np.ndarray, **options: Any) -> tuple[Any, SimpleNamespace]:
        return iter(says(samples, **options)), SimpleNamespace()

    made._whisper.__dict__["_model"] = SimpleNamespace(
        supported_languages=["cs", "de", "en"], detect_language=detect, transcribe=transcribe
    )
    return made
