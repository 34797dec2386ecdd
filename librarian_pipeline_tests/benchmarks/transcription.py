"""Transcription through the pipeline against faster-whisper alone: the same file, weights, settings and threads."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from librarian_pipeline.settings import AudioSettings, WhisperSettings
from librarian_pipeline.speech.decode import decode
from librarian_pipeline.speech.samples import as_float
from librarian_pipeline.speech.transcribe import DECODING
from librarian_pipeline.speech.transcript import transcribe_file
from librarian_pipeline.speech.weights import resolve_whisper
from librarian_pipeline_tests.benchmarks.measuring import Line, compare

NAME = "transcription"
AUDIO = Path(__file__).absolute().parents[2] / "data" / "audio" / "ep01.opus"
LANGUAGE = "en"


def run(quick: bool) -> list[Line]:
    settings = WhisperSettings(model="tiny.en" if quick else "base")
    reference = _bare_model(settings)
    # Both models are loaded before the clock starts, and the same samples must give the same text.
    assert _ours(settings) == _reference(reference, as_float(decode(AUDIO, AudioSettings()).samples), settings)
    return [
        compare(
            "transcription against faster-whisper alone",
            f"{AUDIO.name}, {settings.model}, {settings.compute_type}, {_cores()} threads",
            lambda: _ours(settings),
            lambda: _reference(reference, str(AUDIO), settings),
            rounds=1 if quick else 5,
        )
    ]


def _bare_model(settings: WhisperSettings) -> Any:
    from faster_whisper import WhisperModel

    folder, _ = resolve_whisper(settings.model)
    options = {"device": settings.device, "compute_type": settings.compute_type, "cpu_threads": _cores()}
    return WhisperModel(str(folder), local_files_only=True, **options)


def _ours(settings: WhisperSettings) -> list[str]:
    texts: list[str] = transcribe_file(AUDIO, AUDIO.stem, LANGUAGE, settings, AudioSettings()).column("text").to_pylist()
    return texts


def _reference(model: Any, audio: "str | npt.NDArray[np.float32]", settings: WhisperSettings) -> list[str]:
    segments, _ = model.transcribe(audio, language=LANGUAGE, beam_size=settings.beam_size, **DECODING)
    return [segment.text.strip() for segment in segments]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
