"""Models and samples that are loaded once for all tests of speech."""

from pathlib import Path

import numpy as np
import pytest

from librarian_pipeline.settings import AudioSettings, WhisperSettings
from librarian_pipeline.speech.decode import decode
from librarian_pipeline.speech.transcribe import Transcriber
from librarian_pipeline_tests.speech.sounds import SPOKEN

AUDIO = Path(__file__).parents[2] / "data" / "audio"


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIBRARIAN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def tiny_en() -> Transcriber:
    return Transcriber(WhisperSettings(model="tiny.en"))


@pytest.fixture(scope="session")
def base() -> Transcriber:
    return Transcriber(WhisperSettings(model="base", beam_size=1))


@pytest.fixture(scope="session")
def spoken() -> np.ndarray:
    return decode(SPOKEN, AudioSettings()).samples


@pytest.fixture(scope="session")
def episodes() -> dict[str, np.ndarray]:
    """The samples of the sample archive's audio."""
    return {path.stem: decode(path, AudioSettings()).samples for path in sorted(AUDIO.glob("*.opus"))}
