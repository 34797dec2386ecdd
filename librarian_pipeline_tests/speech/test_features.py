"""The features that Whisper hears are the same whatever the linear algebra library does."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from faster_whisper.feature_extractor import FeatureExtractor
from threadpoolctl import threadpool_limits

from librarian_pipeline.speech.features import StableFeatures

SOUND = np.random.default_rng(7).normal(0, 0.1, 16_000 * 40).astype(np.float32)
DIGEST = (
    "import hashlib, numpy as np\n"
    "from faster_whisper.feature_extractor import FeatureExtractor\n"
    "from librarian_pipeline.speech.features import StableFeatures\n"
    "sound = np.random.default_rng(7).normal(0, 0.1, 16_000 * 40).astype(np.float32)\n"
    "features = np.ascontiguousarray(StableFeatures(FeatureExtractor())(sound))\n"
    "print(hashlib.sha256(features.tobytes()).hexdigest())\n"
)


def test_one_thread_and_several_give_the_same_features() -> None:
    extractor = StableFeatures(FeatureExtractor())
    with threadpool_limits(1, user_api="blas"):
        alone = extractor(SOUND)
    with threadpool_limits(2, user_api="blas"):
        together = extractor(SOUND)
    assert np.array_equal(alone, together)


@pytest.mark.parametrize("variable", [{"OMP_NUM_THREADS": "1"}, {"OPENBLAS_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "3"}])
def test_the_environment_changes_no_feature(variable: dict[str, str]) -> None:
    def digest(changes: dict[str, str]) -> str:
        environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), **changes}
        return subprocess.run(
            [sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert digest(variable) == digest({})


def test_they_are_those_of_the_model_but_for_rounding() -> None:
    plain = FeatureExtractor()
    features = StableFeatures(plain)(SOUND)
    assert features.dtype == np.float32
    assert np.abs(features - plain(SOUND)).max() < 1e-5
