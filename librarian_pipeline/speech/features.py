"""Log-Mel features that don't depend on how many threads the linear algebra library takes, nor on which kernel it picks.

faster-whisper sums the Mel bands in single precision, where the order of a sum changes its last bits, and these are enough
to tip a decoding that is close. In double precision, rounded once at the end, every order gives the same features.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from faster_whisper.feature_extractor import FeatureExtractor


class StableFeatures(FeatureExtractor):  # type: ignore[misc]
    """Takes the place of a model's own extractor."""

    def __init__(self, plain: FeatureExtractor) -> None:
        self.__dict__.update(plain.__dict__)
        self.mel_filters = plain.mel_filters.astype(np.float64)

    def __call__(self, waveform: npt.NDArray[np.float32], *args: Any, **options: Any) -> npt.NDArray[np.float32]:
        features: npt.NDArray[np.float32] = super().__call__(waveform, *args, **options).astype(np.float32)
        return features
