"""Caption files that are damaged: no word of them is lost in silence."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.archive.published.captions import srt_cues, vtt_cues
from librarian_pipeline.archive.published.cues import Cue, Parsed, Rejected

from .test_published import cues, read

READERS = {"vtt": vtt_cues, "srt": srt_cues}
FORMATS = pytest.mark.parametrize("source", READERS)


def parsed(source: str, content: str) -> list[Parsed]:
    return list(READERS[source](f"WEBVTT\n\n{content}" if source == "vtt" else content))


def texts(found: list[Parsed]) -> list[str]:
    return [cue.text if isinstance(cue, Cue) else f"({cue.value})" for cue in found]


@FORMATS
def test_text_after_a_blank_line_inside_a_cue_is_kept_with_it(source: str) -> None:
    content = (
        "1\n00:00:01.000 --> 00:00:02.000\nHello\n\nworld again\nsecond\n\n2\n00:00:03.000 --> 00:00:04.000\nEnd.\n\nIt is."
    )
    assert texts(parsed(source, content)) == ["Hello world again second", "End. It is."]


@FORMATS
@pytest.mark.parametrize(
    "damaged",
    [
        "00:00:0x,000 --> 00:00:04,000",
        "00:00:61,000 --> 00:01:04,000",
        "--> 00:00:04,000",
        "0:0 -> 00:00:04,000",
        "00:xx:03,000 –> 00:00:04,000",
        "-->",
        "soon --> later",
    ],
)
def test_a_damaged_timing_costs_its_own_cue_and_touches_no_other(source: str, damaged: str) -> None:
    content = f"1\n00:00:01,000 --> 00:00:02,000\nOne.\n\n2\n{damaged}\nLost.\n\n3\n00:00:05,000 --> 00:00:06,000\nThree."
    assert texts(parsed(source, content)) == ["One.", "(bad_time)", "Three."]


@FORMATS
@pytest.mark.parametrize("arrow", ["->", "-->", "–>", "—>", "-- >", "--&gt;", "→", "--->"])
def test_an_arrow_may_be_written_in_other_ways_on_any_timing(source: str, arrow: str) -> None:
    content = f"1\n00:00:01,000 {arrow} 00:00:02,000\nOne.\n\n2\n00:00:03,000{arrow}00:00:04,000\nTwo."
    assert [(c.start_ms, c.end_ms, c.text) for c in parsed(source, content) if isinstance(c, Cue)] == [
        (1_000, 2_000, "One."),
        (3_000, 4_000, "Two."),
    ]


@FORMATS
@pytest.mark.parametrize("speech", ["Four --> five.", "from A -> B", "version 1.5 -> 2", "tea → milk"])
def test_an_arrow_between_words_is_speech(source: str, speech: str) -> None:
    assert texts(parsed(source, f"00:00:01,000 --> 00:00:02,000\n{speech}")) == [speech]


@FORMATS
def test_text_before_the_first_timing_is_counted(source: str) -> None:
    content = "Some words\nthat nobody timed\n\n1\n00:00:01,000 --> 00:00:02,000\nOne."
    assert texts(parsed(source, content)) == ["(stray_text)", "One."]


def test_words_between_the_webvtt_line_and_the_first_timing_are_counted() -> None:
    content = "WEBVTT\nKind: captions\nSome words\nmore\n00:00:01,000 --> 00:00:02,000\nOne."
    assert texts(list(vtt_cues(content))) == ["(stray_text)", "One."]


@FORMATS
def test_words_beside_the_times_are_no_settings(source: str) -> None:
    content = "1 00:00:01,000 --> 00:00:02,000 One.\n\nwords 00:00:03,000 --> 00:00:04,000 align:start size:50%\nTwo."
    assert texts(parsed(source, content)) == ["One.", "(stray_text)", "Two."]


@FORMATS
@pytest.mark.parametrize(
    ("fraction", "ms"), [("", 0), (".5", 500), (",05", 50), (".050", 50), (",1234", 123), (".999999999", 999)]
)
def test_a_fraction_of_a_second_may_have_up_to_nine_digits(source: str, fraction: str, ms: int) -> None:
    (cue,) = parsed(source, f"00:00:01{fraction} --> 00:00:05{fraction}\nOne.")
    assert isinstance(cue, Cue)
    assert (cue.start_ms, cue.end_ms) == (1_000 + ms, 5_000 + ms)


def test_stray_text_is_in_the_counts_of_the_transcript(tmp_path: Path) -> None:
    transcript = read(tmp_path, "stray words\nand more\n00:00:01,5 --> 00:00:02\nOne.", name="ep07.srt")
    assert cues(transcript) == [(1_500, 2_000, None, "One.")]
    assert transcript.counts == {"read": 2, "kept": 1, "rejected_stray_text": 1}


good_times = st.sampled_from(["00:00:{n:02},000 --> 00:00:{n:02},900", "00:{n:02},5 -> 00:{n:02}.75", "00:{n:02} --> 0x"])
bad_times = st.sampled_from(["00:0x:{n:02} --> 00:00:{n:02}", "--> 00:{n:02}", "00:99:{n:02} -> 00:00:{n:02}", "-->"])
gaps = st.sampled_from(["\n", "\n\n", "\n \n\n", " "])


@st.composite
def damaged_files(draw: st.DrawFn) -> tuple[str, list[list[str]], list[str]]:
    """A file; the words of each cue that can be read; and the reasons for which the others can't, in order."""
    numbers = itertools.count()
    spoken, reasons = [], []
    content, head = "", _words(draw, numbers, 0)
    if head:  # at least two lines: a single one could name the first cue
        content, reasons = f"stray\n{head[0]}{_joined(draw, head[1:])}", ["stray_text"]
    for n in range(draw(st.integers(1, 8))):
        words, is_good = _words(draw, numbers, 2), draw(st.booleans())
        timing = draw(good_times if is_good else bad_times).format(n=n)
        index = draw(st.sampled_from(["", f"{n}\n"]))
        content += f"\n\n{index}{timing}\n{words[0]}{_joined(draw, words[1:-1])} \n{words[-2]}b {words[-1]}"
        content += f"\n{words[0]}c"
        heard = [*words[:-1], f"{words[-2]}b", words[-1], f"{words[0]}c"]
        spoken.append(heard) if is_good else reasons.append("bad_time")
    return content, spoken, reasons


def _words(draw: st.DrawFn, numbers: Iterator[int], least: int) -> list[str]:
    return [f"w{next(numbers)}" for _ in range(draw(st.integers(least, 6)))]


def _joined(draw: st.DrawFn, words: list[str]) -> str:
    return "".join(f"{draw(gaps)}{word}" for word in words)


@FORMATS
@given(file=damaged_files())
def test_every_word_is_in_its_own_cue_or_counted_with_a_rejected_one(
    source: str, file: tuple[str, list[list[str]], list[str]]
) -> None:
    content, spoken, reasons = file
    found = parsed(source, content)
    assert [cue.text.split() for cue in found if isinstance(cue, Cue)] == spoken
    assert [cue.value for cue in found if isinstance(cue, Rejected)] == reasons
