"""Transcription through the pipeline against faster-whisper alone: the same file, weights, settings and threads."""

from pathlib import Path
from typing import Any

from librarian_pipeline.machine import available_cores
from librarian_pipeline.settings import AudioSettings, Settings, WhisperSettings
from librarian_pipeline.speech.decode import decode
from librarian_pipeline.speech.samples import Samples, as_float
from librarian_pipeline.speech.transcript import transcribe_file
from librarian_pipeline.speech.weights import resolve_whisper
from librarian_pipeline.speech.whisper import DECODING
from librarian_pipeline_tests.benchmarks.measuring import Line, compare

NAME = "transcription"
AUDIO = Path(__file__).absolute().parents[2] / "data" / "audio" / "ep01.opus"
LANGUAGE = "en"


def run(quick: bool) -> list[Line]:
    settings = Settings(whisper={"model": "tiny.en" if quick else "base"})
    reference = _bare_model(settings.whisper)
    # Both models are loaded before the clock starts, and the same samples must give the same text. faster-whisper's own
    # decoder rounds samples to 16 bits, which can move a boundary between segments.
    assert _ours(settings) == _reference(reference, as_float(decode(AUDIO, AudioSettings()).samples), settings.whisper)
    return [
        compare(
            "transcription against faster-whisper alone",
            f"{AUDIO.name}, {settings.whisper.model}, {settings.whisper.compute_type}, {available_cores()} threads",
            lambda: _ours(settings),
            lambda: _reference(reference, str(AUDIO), settings.whisper),
            rounds=1 if quick else 5,
        )
    ]


def _bare_model(settings: WhisperSettings) -> Any:
    from faster_whisper import WhisperModel

    from librarian_pipeline.speech.features import StableFeatures

    folder, _ = resolve_whisper(settings.model)
    options = {"device": settings.device, "compute_type": settings.compute_type, "cpu_threads": available_cores()}
    model = WhisperModel(str(folder), local_files_only=True, **options)
    # Features of other last bits can give another text, and then there would be nothing to compare.
    model.feature_extractor = StableFeatures(model.feature_extractor)
    return model


def _ours(settings: Settings) -> str:
    return " ".join(transcribe_file(AUDIO, AUDIO.stem, LANGUAGE, settings).segments.column("text").to_pylist())


def _reference(model: Any, audio: str | Samples, settings: WhisperSettings) -> str:
    decoding = {**DECODING, "vad_filter": True}
    segments, _ = model.transcribe(audio, language=LANGUAGE, beam_size=settings.beam_size, **decoding)
    return " ".join(segment.text.strip() for segment in segments)
