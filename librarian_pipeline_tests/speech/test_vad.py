from dataclasses import replace

import faster_whisper.vad
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from librarian_pipeline.speech import vad
from librarian_pipeline.speech.samples import Span, as_float
from librarian_pipeline.speech.vad import FOR_WHISPER, HEARD, detect_speech, spans, speech_probabilities
from librarian_pipeline_tests.speech.sounds import silence

PROBABILITIES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.2, 0.34, 0.35, 0.4, 0.5, 0.6, 1.0]), st.integers(1, 80)), max_size=12
).map(lambda runs: np.array([value for value, count in runs for _ in range(count)], np.float32))


def by_faster_whisper(samples: np.ndarray) -> list[Span]:
    return [Span(found["start"], found["end"]) for found in faster_whisper.vad.get_speech_timestamps(samples)]


def test_pieces_give_what_faster_whisper_finds_in_the_whole(episodes):
    first, second, third = (as_float(episodes[episode]) for episode in ("ep01", "ep03", "ep05"))
    samples = np.concatenate([first, silence(4), second, silence(2.5), third[:300_000]])
    assert samples.size > 5 * vad.PIECE_WINDOWS * vad.WINDOW_SAMPLES
    assert list(detect_speech(samples).for_whisper) == by_faster_whisper(samples)


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 32_000 * 16, 32_000 * 16 + 1])
def test_each_window_has_its_probability_whatever_the_length(size):
    assert speech_probabilities(np.zeros(size, np.float32)).shape == (-(-size // 512),)


def test_state_goes_on_from_piece_to_piece(episodes, monkeypatch):
    whole = speech_probabilities(episodes["ep03"])
    monkeypatch.setattr(vad, "PIECE_WINDOWS", 37)
    assert np.array_equal(speech_probabilities(episodes["ep03"]), whole)


def test_16_bit_samples_are_the_same_speech(episodes):
    narrow = episodes["ep02"]
    assert narrow.dtype == np.int16
    assert detect_speech(narrow) == detect_speech(as_float(narrow))


@settings(max_examples=200, deadline=None)
@given(PROBABILITIES, st.integers(0, 511))
def test_spans_are_those_of_faster_whisper_for_any_probabilities(probabilities, missing):
    n_samples = max(0, probabilities.size * 512 - missing)
    with pytest.MonkeyPatch.context() as patch:
        # A window more for what it pads with; a probability between the thresholds changes nothing.
        padded = np.append(probabilities, np.float32(0.4))
        patch.setattr(faster_whisper.vad, "get_vad_model", lambda: lambda audio: padded)
        expected = by_faster_whisper(np.zeros(n_samples, np.float32))
    assert spans(probabilities, n_samples, FOR_WHISPER) == expected


@settings(max_examples=200, deadline=None)
@given(PROBABILITIES, st.sampled_from([HEARD, FOR_WHISPER, replace(HEARD, pad_ms=2_000)]))
def test_spans_are_in_order_apart_and_within_the_audio(probabilities, reading):
    n_samples = probabilities.size * 512
    borders = [border for span in spans(probabilities, n_samples, reading) for border in span]
    assert borders == sorted(borders)
    assert all(0 <= border <= n_samples for border in borders)


def test_a_pause_between_sentences_is_not_heard_as_speech_but_is_given_to_whisper():
    probabilities = np.array([1.0] * 60 + [0.0] * 30 + [1.0] * 60 + [0.0] * 90, np.float32)
    n_samples = probabilities.size * 512
    assert len(spans(probabilities, n_samples, HEARD)) == 2
    assert len(spans(probabilities, n_samples, FOR_WHISPER)) == 1


def test_a_click_is_not_heard_as_speech():
    probabilities = np.array([0.0] * 30 + [1.0] * 3 + [0.0] * 30, np.float32)
    assert spans(probabilities, probabilities.size * 512, HEARD) == []
