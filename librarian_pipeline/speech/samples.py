"""Samples as the pipeline holds them: mono, 16 kHz, 16 bits. Three hours are 345 MB."""

import numpy as np
import numpy.typing as npt

SAMPLE_RATE_HZ = 16_000
FULL_SCALE = 32_768

Samples = npt.NDArray[np.int16]

FIRST_CAPACITY = 1 << 20
LARGEST_STEP = 1 << 24


def as_float(samples: Samples) -> npt.NDArray[np.float32]:
    """Samples as float32 in [-1, 1), a copy of twice the size: for a slice, rather than for hours of audio."""
    return samples.astype(np.float32) / np.float32(FULL_SCALE)


def to_ms(n_samples: int) -> int:
    """A number of samples as milliseconds."""
    return round(n_samples * 1_000 / SAMPLE_RATE_HZ)


class SampleBuffer:
    """Collects samples, up to a limit; what comes after that is left out.

    It grows in place: the memory of a large block is moved by the kernel, without a second copy at any time.
    """

    def __init__(self, limit: int) -> None:
        self._samples: Samples = np.zeros(min(FIRST_CAPACITY, limit), np.int16)
        self._limit = limit
        self.size = 0
        self.is_full = False

    def append(self, samples: Samples) -> None:
        start, size = self.size, self._extend(samples.size)
        self._samples[start : start + size] = samples[:size]

    def append_silence(self, n_samples: int) -> None:
        # New memory is zeros, and is written only once.
        self._extend(n_samples)

    def take(self) -> Samples:
        """All samples, without a copy. The buffer is of no use afterwards."""
        self._samples.resize(self.size, refcheck=False)
        return self._samples

    def _extend(self, n_samples: int) -> int:
        """Makes room, and returns for how many samples there is some below the limit."""
        size = min(n_samples, self._limit - self.size)
        self.is_full = self.is_full or size < n_samples
        needed = self.size + size
        if needed > self._samples.size:
            step = min(max(self._samples.size, FIRST_CAPACITY), LARGEST_STEP)
            self._samples.resize(min(max(needed, self._samples.size + step), self._limit), refcheck=False)
        self.size = needed
        return size
