"""Whisper through faster-whisper: the model, the languages it knows and hears, and its segments by decoding window."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Final

from librarian_pipeline.errors import ModelNotFoundError
from librarian_pipeline.machine import available_cores
from librarian_pipeline.settings import WhisperSettings
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ, FloatSamples, Samples, Span, gathered, stretch, total_size
from librarian_pipeline.speech.weights import resolve_whisper

# One pass at temperature 0, so that a rerun gives the same text; no carried-over text, which is what loops grow from; words,
# as times are mapped back over the cut silences word by word. Silence is cut out before, as `vad_filter=True` would do it.
DECODING: Final[Mapping[str, Any]] = {
    "temperature": 0.0,
    "condition_on_previous_text": False,
    "vad_filter": False,
    "word_timestamps": True,
}
SAMPLES_PER_FRAME = 160
"""What a step of `Segment.seek` stands for."""
FRAMES_PER_WINDOW = 3_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Window:
    """What Whisper decoded in one go, at most 30 s. All its segments share their scores.

    `spans` are the samples it took, in the whole audio. The times of `segments` (faster-whisper's) are seconds on the
    audio's timeline. Without `word_times`, the words couldn't be aligned, and the segments have none.
    """

    spans: tuple[Span, ...]
    segments: tuple[Any, ...]
    word_times: bool


class Whisper:
    """A Whisper model. It is loaded at the first use, and kept."""

    def __init__(self, settings: WhisperSettings) -> None:
        self._settings = settings

    @cached_property
    def languages(self) -> list[str]:
        """The languages that the model knows, as ISO 639-1 codes. Raises `ModelNotFoundError`, as all methods do."""
        return list(self._model.supported_languages)

    def language_probabilities(self, audio: FloatSamples) -> list[tuple[str, float]]:
        """How likely each language is in the first 30 s, the likeliest first."""
        _, _, probabilities = self._model.detect_language(audio)
        return list(probabilities)

    def windows(
        self,
        samples: Samples,
        spans: Sequence[Span],
        language: str,
        on_second: Callable[[float], None],
        **changes: object,
    ) -> list[Window]:
        """Transcribes the given spans of the samples, one after another, as if nothing lay between them.

        `on_second` gets the second of the audio up to which it is done. `changes` are to `DECODING`.
        """
        if not spans:
            return []
        return self._aligned(samples, spans, language, on_second, {**DECODING, **changes})

    def _aligned(
        self,
        samples: Samples,
        spans: Sequence[Span],
        language: str,
        on_second: Callable[[float], None],
        decoding: Mapping[str, Any],
    ) -> list[Window]:
        """The windows, without times of words only in the spans where faster-whisper's alignment of words fails.

        These are found by halving. What is decoded once more may be worded otherwise: windows begin elsewhere then, and
        without words, the next one begins where the last segment ends, and not its last word.
        """
        try:
            return self._windows(samples, spans, language, on_second, decoding)
        except IndexError as error:
            if len(spans) > 1:
                half = len(spans) // 2
                parts = (spans[:half], spans[half:])
                return [window for part in parts for window in self._aligned(samples, part, language, on_second, decoding)]
            first, last = spans[0].start / SAMPLE_RATE_HZ, spans[-1].end / SAMPLE_RATE_HZ
            _log.warning("from %.0f to %.0f s, words could not be aligned (%s): times are by segment", first, last, error)
            return self._windows(samples, spans, language, on_second, {**decoding, "word_timestamps": False})

    def _windows(
        self,
        samples: Samples,
        spans: Sequence[Span],
        language: str,
        on_second: Callable[[float], None],
        decoding: Mapping[str, Any],
    ) -> list[Window]:
        from faster_whisper.transcribe import restore_speech_timestamps

        audio = gathered(samples, spans)
        segments, _ = self._model.transcribe(audio, language=language, beam_size=self._settings.beam_size, **decoding)
        del audio  # the features are computed by now
        chunks = [{"start": span.start, "end": span.end} for span in spans]
        found = []
        # Decoding happens here, segment by segment.
        for segment in restore_speech_timestamps(segments, chunks, SAMPLE_RATE_HZ):
            found.append(segment)
            on_second(segment.end)
        return _by_window(found, spans, word_times=decoding["word_timestamps"])

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
                cpu_threads=available_cores(),
                local_files_only=True,
            )
        except (RuntimeError, ValueError) as error:
            wrong = f"Whisper `{weights.name}` ({weights.source}) can't be loaded on device {settings.device} as "
            fix = "change `[whisper] model`, `device` or `compute_type`: `base`, `auto` and `int8` work everywhere"
            raise ModelNotFoundError(f"{wrong}{settings.compute_type} ({error})", fix) from error
        model.feature_extractor = StableFeatures(model.feature_extractor)
        return model


def _by_window(segments: Sequence[Any], spans: Sequence[Span], word_times: bool) -> list[Window]:
    """A window reaches to where the next one with segments begins, but no further than 30 s."""
    groups = [(seek, tuple(group)) for seek, group in groupby(segments, key=lambda segment: segment.seek)]
    borders = [*(seek for seek, _ in groups), total_size(spans) // SAMPLES_PER_FRAME + 1]
    found = []
    for (seek, group), following in zip(groups, borders[1:], strict=True):
        end = min(following, seek + FRAMES_PER_WINDOW)
        taken = stretch(spans, seek * SAMPLES_PER_FRAME, end * SAMPLES_PER_FRAME)
        found.append(Window(tuple(taken), group, word_times))
    return found
