"""Where there is speech: voice activity detection with the Silero model that faster-whisper brings, in bounded memory.

The model is run once. Its probabilities give two readings: what is heard as speech, for flags and coverage, and what is
given to Whisper, which is more generous, since a word that is cut off can't be understood.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from librarian_pipeline.speech.samples import SAMPLES_PER_MS, Samples, Span, as_float

WINDOW_SAMPLES = 512
CONTEXT_SAMPLES = 64
# 32 s at a time. Hours at once would take 200 MB an hour.
PIECE_WINDOWS = 1_000

Probabilities = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Reading:
    """How probabilities become spans: speech begins at `threshold`, and ends where they are below `silence_threshold` for
    `min_silence_ms`. Spans shorter than `min_speech_ms` are left out, the others are widened by `pad_ms` on each side."""

    min_silence_ms: int
    min_speech_ms: int
    pad_ms: int
    threshold: float = 0.5
    silence_threshold: float = 0.35


# As faster-whisper's `vad_filter=True`, so that a block is given to Whisper as faster-whisper alone would do it.
FOR_WHISPER = Reading(min_silence_ms=2_000, min_speech_ms=0, pad_ms=400)
# Pauses between sentences are no speech, nor is a click.
HEARD = Reading(min_silence_ms=300, min_speech_ms=250, pad_ms=30)


@dataclass(frozen=True)
class Speech:
    """Where there is speech, in samples, in order and apart from each other."""

    heard: tuple[Span, ...]
    for_whisper: tuple[Span, ...]


def detect_speech(samples: Samples) -> Speech:
    """Finds the speech in mono 16 kHz samples."""
    probabilities = speech_probabilities(samples)
    return Speech(
        heard=tuple(spans(probabilities, samples.size, HEARD)),
        for_whisper=tuple(spans(probabilities, samples.size, FOR_WHISPER)),
    )


def speech_probabilities(samples: Samples) -> Probabilities:
    """The probability of speech in each window of 512 samples (32 ms).

    Piece by piece with the model's state carried over: equal to the last bit to what the whole at once would give.
    """
    # Takes the inference engine with it: only who needs it should wait for it.
    from faster_whisper.vad import get_vad_model

    session: Any = get_vad_model().session
    hidden = cell = np.zeros((1, 1, 128), np.float32)
    context = np.zeros(CONTEXT_SAMPLES, np.float32)
    found: list[Probabilities] = []
    step = PIECE_WINDOWS * WINDOW_SAMPLES
    for start in range(0, samples.size, step):
        windows = _windows(as_float(samples[start : start + step]))
        contexts = np.vstack([context, windows[:-1, -CONTEXT_SAMPLES:]])
        context = windows[-1, -CONTEXT_SAMPLES:]
        inputs = {"input": np.concatenate([contexts, windows], axis=1), "h": hidden, "c": cell}
        output, hidden, cell = session.run(None, inputs)
        found.append(output)
    return np.concatenate(found) if found else np.zeros(0, np.float32)


def spans(probabilities: Probabilities, n_samples: int, reading: Reading) -> list[Span]:
    """The spans of speech in audio of `n_samples` samples."""
    found = _triggered(probabilities, n_samples, reading.min_silence_ms * SAMPLES_PER_MS, reading)
    long_enough = [span for span in found if span.size > reading.min_speech_ms * SAMPLES_PER_MS]
    return _widened(long_enough, n_samples, reading.pad_ms * SAMPLES_PER_MS)


def _windows(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.pad(samples, (0, -samples.size % WINDOW_SAMPLES)).reshape(-1, WINDOW_SAMPLES)


def _triggered(probabilities: Probabilities, n_samples: int, min_silence: int, reading: Reading) -> list[Span]:
    found: list[Span] = []
    start: int | None = None
    silent_since: int | None = None
    loud = (probabilities >= reading.threshold).tolist()
    silent = (probabilities < reading.silence_threshold).tolist()
    for number in range(probabilities.size):
        at = number * WINDOW_SAMPLES
        if loud[number]:
            silent_since = None
            start = at if start is None else start
        elif start is not None and silent[number]:
            silent_since = at if silent_since is None else silent_since
            if at - silent_since >= min_silence:
                found.append(Span(start, silent_since))
                start = silent_since = None
    return found if start is None else [*found, Span(start, n_samples)]


def _widened(found: list[Span], n_samples: int, pad: int) -> list[Span]:
    """Each span with `pad` samples more on both sides; those too near for that share the silence between them."""
    widened = []
    for number, span in enumerate(found):
        left = span.start - (found[number - 1].end if number else 0)
        right = (found[number + 1].start if number + 1 < len(found) else n_samples) - span.end
        # The silences at both ends of the audio aren't shared.
        start = span.start - (min(pad, left) if not number or left >= 2 * pad else left // 2)
        end = span.end + (min(pad, right) if number + 1 == len(found) or right >= 2 * pad else right // 2)
        widened.append(Span(start, end))
    return widened
