from typing import Any

from faster_whisper.transcribe import Segment, Word

from librarian_pipeline.speech.rows import in_order, window_rows
from librarian_pipeline.speech.samples import Span
from librarian_pipeline.speech.whisper import Window


def segment(start: float, end: float, text: str = " Words.", words: list[Word] | None = None) -> Segment:
    scores = {"avg_logprob": -0.5, "compression_ratio": 1.0, "no_speech_prob": 0.1, "temperature": 0.0}
    return Segment(id=1, seek=0, start=start, end=end, text=text, tokens=[], words=words, **scores)


def rows(*segments: Segment, word_times: bool = True) -> list[dict[str, Any]]:
    window = Window((Span(0, 480_000),), segments, word_times)
    return in_order(window_rows([window], "ep01", "en", 60_000, 3, 1))


def test_times_outside_the_audio_are_clamped_and_flagged():
    words = [Word(58.0, 59.0, " one", 0.9), Word(59.5, 61.25, " two", 0.8)]
    late, early = rows(segment(58.0, 61.25, words=words), segment(-0.5, 1.0))[::-1]
    assert (late["start_ms"], late["end_ms"], late["flags"]) == (58_000, 60_000, ["clamped"])
    assert [(word["start_ms"], word["end_ms"]) for word in late["words"]] == [(58_000, 59_000), (59_500, 60_000)]
    assert (early["start_ms"], early["end_ms"], early["flags"]) == (0, 1_000, ["clamped", "reordered"])


def test_segments_that_start_after_the_end_are_dropped():
    found = rows(segment(1.0, 2.0), segment(60.0, 61.0), segment(75.0, 76.0))
    assert [row["start_ms"] for row in found] == [1_000]


def test_segments_out_of_order_are_sorted_flagged_and_numbered_anew():
    found = rows(segment(10.0, 12.0, " b"), segment(4.0, 5.0, " a"), segment(20.0, 22.0, " c"))
    assert [(row["segment_idx"], row["text"], row["flags"]) for row in found] == [
        (0, "a", ["reordered"]),
        (1, "b", []),
        (2, "c", []),
    ]


def test_text_is_stripped_and_empty_segments_are_dropped():
    assert [row["text"] for row in rows(segment(1, 2, "  Hello. "), segment(2, 3, " "), segment(3, 4, ""))] == ["Hello."]


def test_milliseconds_are_rounded():
    (row,) = rows(segment(1.0006, 2.0004))
    assert (row["start_ms"], row["end_ms"], row["flags"]) == (1_001, 2_000, [])


def test_a_row_tells_its_window_its_pass_and_whether_words_have_times():
    (row,) = rows(segment(1, 2), word_times=False)
    assert (row["window_id"], row["decoding_pass"], row["words"], row["flags"]) == (3, 1, [], ["no_word_times"])
