import numpy as np
import pytest

from librarian_pipeline.speech.language import spoken_language
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ, Span
from librarian_pipeline_tests.speech.sounds import silence
from librarian_pipeline_tests.speech.stand_in import transcriber

# A minute of each loudness, with a minute of silence before each.
MINUTES = np.concatenate([part for level in (0.1, 0.2, 0.3) for part in (silence(60), silence(60) + np.float32(level))])
SPEECH = [Span(start * 60 * SAMPLE_RATE_HZ, (start + 1) * 60 * SAMPLE_RATE_HZ) for start in (1, 3, 5)]


def detecting(heard: dict[float, list[tuple[str, float]]]):
    """The stand-in model hears languages by the loudness of a window."""

    def detect_language(window: np.ndarray) -> tuple[None, None, list[tuple[str, float]]]:
        assert window.size == 30 * SAMPLE_RATE_HZ
        assert window[0] == window[-1] != 0
        return None, None, heard[round(float(window[0]), 1)]

    return transcriber(lambda samples, **options: [], detect_language)._whisper


def test_the_majority_of_three_windows_of_speech_decides():
    whisper = detecting(
        {0.1: [("cs", 0.99), ("en", 0.01)], 0.2: [("en", 0.6), ("cs", 0.3)], 0.3: [("en", 0.6), ("de", 0.2)]}
    )
    found = spoken_language(whisper, MINUTES, SPEECH, None)
    assert (found.code, found.source) == ("en", "detected")
    assert found.votes == (("cs", 0.99), ("en", 0.6), ("en", 0.6))
    assert found.probability == pytest.approx((0.01 + 0.6 + 0.6) / 3)


def test_where_all_differ_the_likeliest_over_the_windows_is_taken():
    whisper = detecting({0.1: [("cs", 0.5), ("de", 0.4)], 0.2: [("en", 0.6), ("de", 0.3)], 0.3: [("de", 0.6), ("en", 0.2)]})
    assert spoken_language(whisper, MINUTES, SPEECH, None).code == "de"


def test_short_speech_is_one_window():
    asked = []

    def detect_language(window: np.ndarray) -> tuple[None, None, list[tuple[str, float]]]:
        asked.append(window.size)
        return None, None, [("cs", 0.8)]

    whisper = transcriber(lambda samples, **options: [], detect_language)._whisper
    assert spoken_language(whisper, MINUTES, [Span(100, 5_100)], None).code == "cs"
    assert asked == [5_000]


def test_the_czech_episode_is_heard_as_czech(base, episodes):
    found = spoken_language(base._whisper, episodes["ep05"], [Span(0, episodes["ep05"].size)], None)
    assert (found.code, found.source, [code for code, _ in found.votes]) == ("cs", "detected", ["cs"] * 3)
    assert found.probability is not None
    assert found.probability > 0.8
