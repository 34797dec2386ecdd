"""Long audio is taken in blocks, so that memory doesn't grow with its length: where to cut it."""

from collections.abc import Sequence

import numpy as np

from librarian_pipeline.speech.samples import SAMPLES_PER_MS, Samples, Span, as_float, within

# A block is at least this share of the length asked for, and never longer than that, as its length is what bounds memory.
MIN_BLOCK_SHARE = 2 / 3
FRAME_SAMPLES = 20 * SAMPLES_PER_MS


def cut_into_blocks(samples: Samples, speech: Sequence[Span], block_samples: int) -> list[Span]:
    """Blocks that together are the whole audio, each sample in exactly one, none longer than `block_samples`.

    A cut is in the middle of the longest silence between the spans of `speech` in the last third of a block. Where someone
    speaks all through that third, it is at its quietest 20 ms.
    """
    blocks = []
    start = 0
    while samples.size - start > block_samples:
        last_third = Span(start + max(1, round(block_samples * MIN_BLOCK_SHARE)), start + block_samples)
        silences = within(_silences(speech, samples.size), last_third)
        if silences:
            longest = max(silences, key=lambda silence: silence.size)
            cut = (longest.start + longest.end) // 2
        else:
            cut = _quietest(samples, last_third)
        blocks.append(Span(start, cut))
        start = cut
    return [*blocks, Span(start, samples.size)] if samples.size else []


def _silences(speech: Sequence[Span], n_samples: int) -> list[Span]:
    ends = [0, *(span.end for span in speech)]
    starts = [*(span.start for span in speech), n_samples]
    return [Span(end, start) for end, start in zip(ends, starts, strict=True) if start > end]


def _quietest(samples: Samples, span: Span) -> int:
    """The middle of the frame with the least energy."""
    n_frames = span.size // FRAME_SAMPLES
    if not n_frames:
        return span.end
    frames = as_float(samples[span.start : span.start + n_frames * FRAME_SAMPLES]).reshape(n_frames, FRAME_SAMPLES)
    return span.start + int(np.argmin(np.square(frames).sum(axis=1))) * FRAME_SAMPLES + FRAME_SAMPLES // 2
