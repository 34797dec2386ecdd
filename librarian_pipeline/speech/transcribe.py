"""Samples to transcript segments with Whisper, always the same text for the same samples, model and settings."""

import importlib.metadata
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from librarian_pipeline.errors import ModelNotFoundError, UsageError
from librarian_pipeline.settings import WhisperSettings
from librarian_pipeline.speech.decode import SAMPLE_RATE_HZ
from librarian_pipeline.speech.weights import resolve_whisper, whisper_digest

# One pass at temperature 0, so that a rerun gives the same text; no carried-over text, which is what loops grow from; words,
# as times are mapped back over the cut silences word by word.
DECODING: Final[dict[str, Any]] = {
    "temperature": 0.0,
    "condition_on_previous_text": False,
    "vad_filter": True,
    "word_timestamps": True,
}

DETECTION_WINDOW_SAMPLES = 30 * SAMPLE_RATE_HZ

OnProgress = Callable[[float, float], None]
Row = dict[str, Any]
Samples = npt.NDArray[np.float32]

_log = logging.getLogger(__name__)


def recipe(settings: WhisperSettings) -> dict[str, object]:
    """Everything besides the samples and an episode's own language that can change a transcript, as JSON values.

    Raises `ModelNotFoundError`.
    """
    return {
        "model_sha256": whisper_digest(settings.model),
        "compute_type": settings.compute_type,
        "device": settings.device,
        "beam_size": settings.beam_size,
        "language": settings.language,
        "decoding": dict(DECODING),
        "faster_whisper": importlib.metadata.version("faster-whisper"),
        "ctranslate2": importlib.metadata.version("ctranslate2"),
        "onnxruntime": importlib.metadata.version("onnxruntime"),
        "av": importlib.metadata.version("av"),
    }


class Transcriber:
    """Whisper under the given settings. The model is loaded at the first use, and kept."""

    def __init__(self, settings: WhisperSettings) -> None:
        self._settings = settings

    def transcribe(
        self, samples: Samples, episode_id: str, language: str | None, on_progress: OnProgress | None = None
    ) -> list[Row]:
        """The segments of mono 16 kHz samples, as rows of `schemas.TRANSCRIPTS`; none where nobody speaks.

        `language` is what the episode declares (ISO 639-1); the settings override it, and without either it is detected.
        `on_progress` gets the seconds of audio done and in total. Raises `ModelNotFoundError` where the model can't be
        loaded, `UsageError` where it doesn't know the language.
        """
        duration_s = samples.size / SAMPLE_RATE_HZ
        report = on_progress or _report_nothing
        rows: list[Row] = []
        if samples.size:
            spoken = self._language(samples, self._settings.language or language)
            segments, info = self._model.transcribe(samples, language=spoken, beam_size=self._settings.beam_size, **DECODING)
            rows = segment_rows(_reported(segments, report, duration_s), episode_id, info.language, to_ms(duration_s))
        report(duration_s, duration_s)
        return rows

    @cached_property
    def _model(self) -> Any:
        # Takes the inference engines with it: only who transcribes should wait for them.
        from faster_whisper import WhisperModel

        from librarian_pipeline.speech.features import StableFeatures

        settings = self._settings
        folder, weights = resolve_whisper(settings.model)
        try:
            model = WhisperModel(
                str(folder),
                device=settings.device,
                compute_type=settings.compute_type,
                cpu_threads=_available_cores(),
                local_files_only=True,
            )
        except (RuntimeError, ValueError) as error:
            wrong = f"Whisper `{weights.name}` ({weights.source}) can't be loaded on device {settings.device} as "
            fix = "change `[whisper] model`, `device` or `compute_type`: `base`, `auto` and `int8` work everywhere"
            raise ModelNotFoundError(f"{wrong}{settings.compute_type} ({error})", fix) from error
        model.feature_extractor = StableFeatures(model.feature_extractor)
        return model

    def _language(self, samples: Samples, declared: str | None) -> str:
        known: list[str] = self._model.supported_languages
        if len(known) == 1:
            if declared not in (None, *known):
                _log.warning("Whisper `%s` knows only %s, not %s", self._settings.model, known[0], declared)
            return known[0]
        if declared is None:
            return self._detected_language(samples)
        if declared not in known:
            raise UsageError(f"Whisper doesn't know the language `{declared}`", "use a code such as `en` or `cs`")
        return declared

    def _detected_language(self, samples: Samples) -> str:
        """The likeliest language over three windows of 30 s: at the beginning, in the middle and at the end.

        One window would go by a jingle, a guest's greeting or a silence.
        """
        last = max(0, samples.size - DETECTION_WINDOW_SAMPLES)
        totals: dict[str, float] = {}
        for start in sorted({0, last // 2, last}):
            _, _, probabilities = self._model.detect_language(samples[start : start + DETECTION_WINDOW_SAMPLES])
            for language, probability in probabilities:
                totals[language] = totals.get(language, 0.0) + probability
        return max(totals, key=lambda language: totals[language])


def segment_rows(segments: Iterable[Any], episode_id: str, language: str, duration_ms: int) -> list[Row]:
    """faster-whisper's segments as rows in the order of their starts, with times kept within the audio.

    Flags: `clamped` where a time lay outside the audio, `reordered` where a segment came after one that starts later.
    Segments without text, and those that start after the end, are dropped.
    """
    rows: list[Row] = []
    latest_start_ms = 0
    beyond = 0
    for segment in segments:
        row = _row(segment, episode_id, language, duration_ms)
        if to_ms(segment.start) >= duration_ms:
            beyond += 1
        elif row["text"]:
            if row["start_ms"] < latest_start_ms:
                row["flags"].append("reordered")
            latest_start_ms = max(latest_start_ms, row["start_ms"])
            rows.append(row)
    if beyond:
        _log.warning("%s: dropped %d segments that start after the end of the audio", episode_id, beyond)
    rows.sort(key=lambda row: (row["start_ms"], row["end_ms"]))
    for idx, row in enumerate(rows):
        row["segment_idx"] = idx
    return rows


def to_ms(seconds: float) -> int:
    """Seconds to whole milliseconds."""
    return round(seconds * 1_000)


def _row(segment: Any, episode_id: str, language: str, duration_ms: int) -> Row:
    start_ms, end_ms = _within(segment.start, segment.end, duration_ms)
    clamped = (start_ms, end_ms) != (to_ms(segment.start), to_ms(segment.end))
    return {
        "episode_id": episode_id,
        "segment_idx": segment.id,
        "start_ms": start_ms,
        "end_ms": end_ms,
        "text": segment.text.strip(),
        "language": language,
        "speaker": None,
        "source": "whisper",
        "avg_logprob": float(segment.avg_logprob),
        "no_speech_prob": float(segment.no_speech_prob),
        "compression_ratio": float(segment.compression_ratio),
        "window_id": segment.seek,
        "words": [_word(word, duration_ms) for word in segment.words or []],
        "flags": ["clamped"] if clamped else [],
        "excluded": False,
    }


def _word(word: Any, duration_ms: int) -> dict[str, Any]:
    start_ms, end_ms = _within(word.start, word.end, duration_ms)
    text = word.word.strip()
    return {"word": text, "start_ms": start_ms, "end_ms": end_ms, "probability": float(word.probability)}


def _within(start_s: float, end_s: float, duration_ms: int) -> tuple[int, int]:
    """Start and end in milliseconds, with 0 <= start <= end <= duration."""
    start_ms = min(max(to_ms(start_s), 0), duration_ms)
    return start_ms, min(max(to_ms(end_s), start_ms), duration_ms)


def _reported(segments: Iterable[Any], report: OnProgress, duration_s: float) -> Iterator[Any]:
    for segment in segments:
        yield segment
        report(min(segment.end, duration_s), duration_s)


def _report_nothing(done_s: float, total_s: float) -> None:
    return None


def _available_cores() -> int:
    """The cores that this process may use. More threads than that make Whisper several times slower."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
