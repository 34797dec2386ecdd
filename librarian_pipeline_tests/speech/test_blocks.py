import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from librarian_pipeline.speech.blocks import FRAME_SAMPLES, cut_into_blocks
from librarian_pipeline.speech.samples import Span, as_float, gathered, stretch, total_size, within

BLOCK = 60_000


@st.composite
def speech_spans(draw: st.DrawFn) -> tuple[int, list[Span]]:
    """The length of some audio, and spans of speech in it, in order and apart."""
    lengths = draw(st.lists(st.tuples(st.integers(0, 30_000), st.integers(1, 90_000)), max_size=12))
    found, at = [], 0
    for gap, length in lengths:
        start = at + gap + (1 if found else 0)
        found.append(Span(start, start + length))
        at = start + length
    return at + draw(st.integers(0, 150_000)), found


def quiet(n_samples: int) -> np.ndarray:
    return np.zeros(n_samples, np.int16)


@settings(max_examples=200, deadline=None)
@given(speech_spans())
def test_every_sample_is_in_exactly_one_block_and_no_block_is_longer_than_asked_for(case):
    n_samples, speech = case
    blocks = cut_into_blocks(quiet(n_samples), speech, BLOCK)
    borders = [border for block in blocks for border in block]
    assert [block.start for block in blocks] == [0, *(block.end for block in blocks)][: len(blocks)]
    assert borders[-1:] == ([n_samples] if n_samples else [])
    assert all(0 < block.size <= BLOCK for block in blocks)
    assert all(block.size >= BLOCK * 0.66 for block in blocks[:-1])


@settings(max_examples=200, deadline=None)
@given(speech_spans())
def test_speech_is_cut_only_where_nobody_pauses_in_the_last_third_of_a_block(case):
    n_samples, speech = case
    for block in cut_into_blocks(quiet(n_samples), speech, BLOCK)[:-1]:
        for span in speech:
            if span.start < block.end < span.end:
                assert within([span], Span(block.start + BLOCK * 2 // 3, block.start + BLOCK))[0].size == BLOCK // 3


def test_the_cut_is_in_the_middle_of_the_longest_silence_near_the_end():
    speech = [Span(0, 44_000), Span(45_000, 50_000), Span(54_000, 59_000), Span(59_500, 100_000)]
    assert cut_into_blocks(quiet(100_000), speech, BLOCK)[0] == Span(0, 52_000)


def test_a_silence_early_in_a_block_is_no_reason_to_cut_there():
    assert (
        cut_into_blocks(quiet(90_000), [Span(0, 5_000), Span(25_000, 56_000), Span(57_000, 90_000)], BLOCK)[0].end == 56_500
    )


def test_who_never_pauses_is_cut_at_the_quietest_place():
    loud = np.full(100_000, 9_000, np.int16)
    loud[51_000 : 51_000 + 3 * FRAME_SAMPLES] = 10
    (first, _) = cut_into_blocks(loud, [Span(0, 100_000)], BLOCK)
    assert 51_000 < first.end < 51_000 + 3 * FRAME_SAMPLES


def test_audio_of_one_block_is_not_cut_and_none_has_no_block():
    assert cut_into_blocks(quiet(BLOCK), [], BLOCK) == [Span(0, BLOCK)]
    assert cut_into_blocks(quiet(0), [], BLOCK) == []


@given(speech_spans(), st.integers(0, 200_000), st.integers(0, 200_000))
def test_a_stretch_of_spans_is_that_part_of_what_was_gathered(case, first, second):
    n_samples, spans = case
    samples = np.arange(n_samples, dtype=np.int32).astype(np.float32)
    start, end = sorted((first, second))
    assert np.array_equal(gathered(samples, stretch(spans, start, end)), gathered(samples, spans)[start:end])


def test_floats_of_16_bit_samples_are_within_one():
    floats = as_float(np.array([-32_768, 0, 16_384], np.int16))
    assert (floats.dtype, floats.tolist()) == (np.float32, [-1.0, 0.0, 0.5])
    same = np.zeros(3, np.float32)
    assert as_float(same) is same
    assert total_size([Span(2, 5), Span(7, 8)]) == 4
