"""Samples to a transcript with Whisper, always the same for the same samples, model and settings.

Speech is found first. The audio is cut into blocks at silences, and the speech of each is transcribed, so that memory
doesn't grow with length. Then segments get flags, windows with severe ones are decoded once more, and what stays invented
is excluded.
"""

import importlib.metadata
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from librarian_pipeline.settings import CheckSettings, TranscriptSettings, WhisperSettings
from librarian_pipeline.speech.blocks import cut_into_blocks
from librarian_pipeline.speech.coverage import Coverage, coverage
from librarian_pipeline.speech.flags import INVENTED_IN_SILENCE, content_flags, overlap_ms
from librarian_pipeline.speech.language import SpokenLanguage, spoken_language
from librarian_pipeline.speech.rows import Row, in_order, to_ms, window_rows
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ, MsSpan, Samples, in_ms, total_size, within
from librarian_pipeline.speech.second_pass import DECODING_CHANGES, flagged_windows, with_second_pass
from librarian_pipeline.speech.vad import Speech, detect_speech
from librarian_pipeline.speech.weights import whisper_digest
from librarian_pipeline.speech.whisper import DECODING, Whisper, Window

# Those of `[checks]` that decide flags, and by them what is decoded again and what is excluded.
CHECKS_IN_USE = ("max_compression_ratio", "max_repeats", "max_characters_per_s", "max_segment_s")

OnProgress = Callable[[float, float], None]

_log = logging.getLogger(__name__)


def recipe(whisper: WhisperSettings, transcripts: TranscriptSettings, checks: CheckSettings) -> dict[str, object]:
    """Everything besides the samples and an episode's own language that can change a transcript, as JSON values.

    Raises `ModelNotFoundError`.
    """
    return {
        "model_sha256": whisper_digest(whisper.model),
        "compute_type": whisper.compute_type,
        "device": whisper.device,
        "beam_size": whisper.beam_size,
        "language": whisper.language,
        "decoding": dict(DECODING),
        "block_s": transcripts.block_s,
        "second_pass": dict(DECODING_CHANGES) if transcripts.second_pass else None,
        "checks": checks.model_dump(include=set(CHECKS_IN_USE)),
        "faster_whisper": importlib.metadata.version("faster-whisper"),
        "ctranslate2": importlib.metadata.version("ctranslate2"),
        "onnxruntime": importlib.metadata.version("onnxruntime"),
        "av": importlib.metadata.version("av"),
    }


@dataclass(frozen=True)
class Transcript:
    """What was heard in an episode's audio, and how.

    `rows` are segments of `schemas.TRANSCRIPTS`, `speech` the spans where speech is heard. `language` is None where there
    is none. `windows_again` were decoded a second time, and in `windows_won` of them that pass was kept. `dropped_segments`
    of the first pass start after the end of the audio, and are no part of `rows`.
    """

    rows: list[Row]
    speech: list[MsSpan]
    coverage: Coverage
    language: SpokenLanguage | None
    windows_again: int
    windows_won: int
    dropped_segments: int


class Transcriber:
    """Whisper under the given settings. The model is loaded at the first use, and kept."""

    def __init__(
        self,
        whisper: WhisperSettings,
        transcripts: TranscriptSettings | None = None,
        checks: CheckSettings | None = None,
    ) -> None:
        self._whisper = Whisper(whisper)
        self._language = whisper.language
        self._transcripts = transcripts or TranscriptSettings()
        self._checks = checks or CheckSettings()

    def transcribe(
        self, samples: Samples, episode_id: str, language: str | None, on_progress: OnProgress | None = None
    ) -> Transcript:
        """The transcript of mono 16 kHz samples; without rows where nobody speaks, for which no model is needed.

        `language` is what the episode declares (ISO 639-1); the settings override it, and without either it is detected.
        `on_progress` gets the seconds of audio done and in total; what is decoded a second time adds to both. Raises
        `ModelNotFoundError` where the model can't be loaded, `UsageError` where it doesn't know the language.
        """
        progress = _Progress(on_progress, samples.size / SAMPLE_RATE_HZ)
        speech = detect_speech(samples)
        heard = [in_ms(span) for span in speech.heard]
        if not speech.for_whisper:
            progress.finish()
            return self._transcript([], heard, None)
        spoken = spoken_language(self._whisper, samples, speech.for_whisper, self._language or language)
        windows = self._first_pass(samples, speech, spoken.code, progress)
        duration_ms = to_ms(samples.size / SAMPLE_RATE_HZ)

        def rows_of(found: Sequence[Window], number: int, decoding_pass: int) -> list[Row]:
            return window_rows(found, episode_id, spoken.code, duration_ms, number, decoding_pass)

        def decoded_again(number: int) -> list[Row]:
            spans = windows[number].spans
            found = self._whisper.windows(samples, spans, spoken.code, progress.ignore, **DECODING_CHANGES)
            progress.advance(total_size(spans) / SAMPLE_RATE_HZ)
            return rows_of(found, number, 2)

        def heard_in_window_ms(number: int) -> int:
            return sum(overlap_ms(*in_ms(span), heard) for span in windows[number].spans)

        rows = [rows_of([window], number, 1) for number, window in enumerate(windows)]
        dropped = _dropped_segments(windows, duration_ms, episode_id)
        again = flagged_windows(rows, heard, self._checks) if self._transcripts.second_pass else []
        progress.more(sum(total_size(windows[number].spans) for number in again) / SAMPLE_RATE_HZ)
        kept = with_second_pass(rows, again, decoded_again, heard_in_window_ms, heard, self._checks)
        won = sum(kept[number] != rows[number] for number in again)
        progress.finish()
        return self._transcript([row for found in kept for row in found], heard, spoken, len(again), won, dropped)

    def _first_pass(self, samples: Samples, speech: Speech, language: str, progress: "_Progress") -> list[Window]:
        windows: list[Window] = []
        block_samples = round(self._transcripts.block_s * SAMPLE_RATE_HZ)
        for block in cut_into_blocks(samples, speech.heard, block_samples):
            spans = within(speech.for_whisper, block)
            windows += self._whisper.windows(samples, spans, language, progress.reach)
            progress.reach(block.end / SAMPLE_RATE_HZ)
        return windows

    def _transcript(
        self,
        rows: list[Row],
        heard: list[MsSpan],
        spoken: SpokenLanguage | None,
        again: int = 0,
        won: int = 0,
        dropped: int = 0,
    ) -> Transcript:
        ordered = in_order(rows)
        for row, flags in zip(ordered, content_flags(ordered, heard, self._checks), strict=True):
            row["flags"] = sorted({*row["flags"], *flags})
            # The rule: what is still made up in the pass that was kept is no part of the episode. Other loops may hold words
            # that were said, so they are only flagged.
            row["excluded"] = INVENTED_IN_SILENCE in flags
        covered = coverage(ordered, heard, self._checks.max_uncovered_speech_s)
        return Transcript(ordered, heard, covered, spoken, again, won, dropped)


class _Progress:
    """Seconds done and in total, neither of which ever goes back."""

    def __init__(self, on_progress: OnProgress | None, total_s: float) -> None:
        self._on_progress = on_progress
        self._done_s = 0.0
        self._total_s = total_s

    def reach(self, done_s: float) -> None:
        self._done_s = max(self._done_s, min(done_s, self._total_s))
        if self._on_progress is not None:
            self._on_progress(self._done_s, self._total_s)

    def advance(self, seconds: float) -> None:
        self.reach(self._done_s + seconds)

    def more(self, seconds: float) -> None:
        self._total_s += seconds

    def finish(self) -> None:
        self.reach(self._total_s)

    def ignore(self, done_s: float) -> None:
        """For what is too short to be told apart."""


def _dropped_segments(windows: Sequence[Window], duration_ms: int, episode_id: str) -> int:
    dropped = sum(to_ms(segment.start) >= duration_ms for window in windows for segment in window.segments)
    if dropped:
        _log.warning("%s: dropped %d segments that start after the end of the audio", episode_id, dropped)
    return dropped
