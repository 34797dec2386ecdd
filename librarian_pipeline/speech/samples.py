"""Samples of decoded audio, mono at 16 kHz, and spans of them: what the rooms of speech hand to each other."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SAMPLE_RATE_HZ = 16_000

FloatSamples = npt.NDArray[np.float32]
Samples = FloatSamples | npt.NDArray[np.int16]
"""Floats from -1 to 1, or 16-bit integers, which take half the memory."""

SAMPLES_PER_MS = SAMPLE_RATE_HZ // 1_000
_INT16_SCALE = np.float32(1 / 32_768)


class Span(NamedTuple):
    """Samples from `start` up to, but not with, `end`."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


MsSpan = tuple[int, int]
"""Start and end in milliseconds on the audio's timeline."""


def as_float(samples: Samples) -> FloatSamples:
    """The same samples as floats from -1 to 1. Only ever asked of a piece: of hours, floats take 230 MB an hour."""
    if samples.dtype == np.int16:
        scaled: FloatSamples = samples * _INT16_SCALE
        return scaled
    return samples.astype(np.float32, copy=False)


def gathered(samples: Samples, spans: Iterable[Span]) -> FloatSamples:
    """The spans one after another, without what lies between them."""
    parts = [as_float(samples[span.start : span.end]) for span in spans]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def within(spans: Sequence[Span], bounds: Span) -> list[Span]:
    """What of the spans lies within `bounds`."""
    cut = (Span(max(span.start, bounds.start), min(span.end, bounds.end)) for span in spans)
    return [span for span in cut if span.size > 0]


def stretch(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """The spans of the samples `start` to `end` of what `gathered` makes of `spans`."""
    found = []
    before = 0
    for span in spans:
        offset = span.start - before
        found += within([span], Span(start + offset, end + offset))
        before += span.size
    return found


def total_size(spans: Iterable[Span]) -> int:
    return sum(span.size for span in spans)


def in_ms(span: Span) -> MsSpan:
    """A span in whole milliseconds."""
    return round(span.start / SAMPLES_PER_MS), round(span.end / SAMPLES_PER_MS)


def to_ms(n_samples: int) -> int:
    """A number of samples as milliseconds."""
    return round(n_samples * 1_000 / SAMPLE_RATE_HZ)
