from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.speech.coverage import coverage


def row(start_ms: int, end_ms: int, excluded: bool = False) -> dict[str, Any]:
    return {"start_ms": start_ms, "end_ms": end_ms, "excluded": excluded}


def test_all_speech_in_segments_is_covered_and_pauses_for_breath_cost_nothing():
    found = coverage([row(0, 4_000), row(4_900, 9_800)], [(0, 10_000)], 15)
    assert (found.speech_ms, found.covered_ms, found.share, found.uncovered) == (10_000, 10_000, 1.0, ())


def test_skipped_speech_is_found_though_the_speaker_pauses_in_it():
    heard = [(0, 10_000), (10_500, 18_000), (18_500, 28_000), (40_000, 50_000)]
    found = coverage([row(0, 10_000), row(40_000, 50_000)], heard, 15)
    assert found.uncovered == ((10_500, 28_000),)
    assert found.covered_ms == 20_000
    assert round(found.share, 2) == 0.54
    assert coverage([row(0, 10_000), row(40_000, 50_000)], heard, 18).uncovered == ()


def test_excluded_segments_cover_nothing_and_what_is_skipped_at_either_end_counts():
    found = coverage([row(0, 20_000, excluded=True), row(30_500, 40_000)], [(0, 70_000)], 15)
    assert found.uncovered == ((0, 30_000), (40_500, 70_000))


def test_without_speech_nothing_is_missing():
    assert coverage([], [], 15).share == 1.0
    assert coverage([row(0, 5_000)], [], 15).covered_ms == 0


SPANS = (
    st.lists(st.integers(0, 100_000), max_size=20, unique=True)
    .map(sorted)
    .map(lambda flat: list(zip(flat[: len(flat) // 2 * 2 : 2], flat[1::2], strict=True)))
)


@given(SPANS, SPANS)
def test_never_more_is_covered_than_is_spoken_and_more_segments_never_cover_less(spoken, told):
    rows = [row(start, end) for start, end in told]
    found = coverage(rows, spoken, 15)
    assert 0 <= found.covered_ms <= found.speech_ms == sum(end - start for start, end in spoken)
    assert coverage(rows[1:], spoken, 15).covered_ms <= found.covered_ms
    assert all(start < end for start, end in found.uncovered)
