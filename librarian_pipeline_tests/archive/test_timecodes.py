import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.archive.timecodes import MAX_MS, format_exact, format_timecode, parse_timecode


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0:00", 0),
        ("8:03", 483_000),
        ("08:03", 483_000),
        ("75:30", 4_530_000),
        ("1:08:03", 4_083_000),
        ("01:08:03", 4_083_000),
        ("08:03.250", 483_250),
        ("1:08:03,007", 4_083_007),
        ("123:00:01", 442_801_000),
    ],
)
def test_a_time_is_read_as_milliseconds(text: str, ms: int) -> None:
    assert parse_timecode(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "8",
        "8:3",
        "08:60",
        "1:60:00",
        "1:8:03",
        "-08:03",
        " 08:03",
        "08:03\n",
        "08:03.5",
        "08:03.1234",
        "a08:03",
        "٠٨:٠٣",
        "1:2:3:4",
    ],
)
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_timecode(text)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "00:00"),
        (483_999, "08:03"),
        (3_599_999, "59:59"),
        (3_600_000, "1:00:00"),
        (4_083_000, "1:08:03"),
        (442_801_000, "123:00:01"),
    ],
)
def test_a_time_is_written_to_the_second_with_hours_only_from_the_hour_on(ms: int, text: str) -> None:
    assert format_timecode(ms) == text


def test_a_negative_time_is_not_written() -> None:
    with pytest.raises(ValueError, match="negative"):
        format_timecode(-1)


@given(st.integers(0, MAX_MS))
def test_a_written_time_reads_back_as_the_second_it_lies_in(ms: int) -> None:
    assert parse_timecode(format_timecode(ms)) == ms - ms % 1_000


@given(st.integers(0, MAX_MS), st.sampled_from(".,"))
def test_milliseconds_are_read_exactly(ms: int, mark: str) -> None:
    assert parse_timecode(f"{format_timecode(ms)}{mark}{ms % 1_000:03}") == ms


@given(st.integers(0, MAX_MS))
def test_an_exact_time_reads_back_as_it_was(ms: int) -> None:
    assert parse_timecode(format_exact(ms)) == ms


@given(st.text(alphabet="0123456789:., -", max_size=14))
def test_any_text_is_either_a_time_in_range_or_a_value_error(text: str) -> None:
    try:
        ms = parse_timecode(text)
    except ValueError:
        return
    assert 0 <= ms <= MAX_MS
