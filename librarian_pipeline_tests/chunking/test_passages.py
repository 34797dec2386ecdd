import hashlib
import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.chunking.passages import (
    LONG_SEGMENT_MS,
    SHORT_TAIL_MS,
    Segment,
    chapter_starts,
    cut_episode,
    group_segments,
    indexed_text,
    split_long,
    split_text,
)
from librarian_pipeline.settings import ChunkSettings
from librarian_pipeline.storage.schemas import CHUNKS, NOTES, TRANSCRIPTS

NO_OVERLAP = ChunkSettings(overlap_segments=0)
DEFAULT = ChunkSettings()


def steady(n: int, seconds: float = 10, text: str = "words and words.", gap: float = 0) -> list[Segment]:
    """`n` segments of equal length, one after the other."""
    starts = [round(i * (seconds + gap) * 1000) for i in range(n)]
    return [Segment(i, start, start + round(seconds * 1000), text, "en") for i, start in enumerate(starts)]


def indices(runs: list[list[Segment]]) -> list[list[int]]:
    return [[segment.idx for segment in run] for run in runs]


def length_ms(run: list[Segment]) -> int:
    return max(segment.end_ms for segment in run) - run[0].start_ms


def transcript(*rows: dict) -> pa.Table:
    base = {"episode_id": "ep01", "language": "en", "excluded": False}
    return pa.Table.from_pylist([{**base, "segment_idx": i, **row} for i, row in enumerate(rows)], schema=TRANSCRIPTS)


def notes(*rows: dict) -> pa.Table:
    base = {"episode_id": "ep01", "language": "en"}
    return pa.Table.from_pylist([{**base, "section_idx": i, **row} for i, row in enumerate(rows)], schema=NOTES)


def cut(transcript_rows: pa.Table | None = None, notes_rows: pa.Table | None = None, settings=DEFAULT) -> list[dict]:
    spoken, written = transcript_rows or TRANSCRIPTS.empty_table(), notes_rows or NOTES.empty_table()
    return cut_episode("ep01", spoken, written, settings).to_pylist()


@st.composite
def segment_lists(draw, overlapping: bool = True) -> list[Segment]:
    """Segments by start, with pauses, overlaps, long ones, empty texts and texts of few words."""
    segments, start = [], 0
    for idx in range(draw(st.integers(0, 25))):
        duration = draw(st.integers(0, 20_000) | st.integers(0, 200_000) | st.just(60_000))
        text = draw(
            st.sampled_from(
                [
                    "",
                    "one",
                    "two words.",
                    "three plain words",
                    "a b c d e f g h i j k?",
                    " ".join(f"w{i:02}" for i in range(90)),
                ]
            )
        )
        segments.append(Segment(idx, start, start + duration, text, draw(st.sampled_from(["en", "cs"]))))
        step = duration + draw(st.integers(0, 5_000))
        start += draw(st.integers(0, step)) if overlapping and draw(st.booleans()) else step
    return segments


@st.composite
def chunk_settings(draw) -> ChunkSettings:
    max_s = draw(st.integers(1, 90))
    target_s, max_words = draw(st.integers(1, max_s)), draw(st.integers(20, 120))
    overlap = draw(st.integers(0, 4))
    return ChunkSettings(target_s=target_s, max_s=max_s, max_words=max_words, overlap_segments=overlap)


# Every segment, once and in order


@given(segment_lists(), chunk_settings())
def test_every_word_of_every_segment_is_in_a_passage(segments, settings):
    runs = group_segments(segments, settings)
    for segment in segments:
        pieces = {(p.start_ms, p.end_ms, p.text) for run in runs for p in run if p.idx == segment.idx}
        assert " ".join(text for _, _, text in sorted(pieces)).split() == segment.text.split()
        assert pieces


@given(segment_lists(), chunk_settings())
def test_no_passage_is_longer_than_allowed_unless_a_segment_of_a_single_word_is(segments, settings):
    max_ms = settings.max_s * 1000
    for run in group_segments(segments, settings):
        longer = [piece for piece in run if piece.end_ms - piece.start_ms > max_ms]
        assert length_ms(run) <= max_ms or any(len(piece.text.split()) <= 1 for piece in longer)


@given(segment_lists(), chunk_settings())
def test_no_passage_has_more_words_than_allowed(segments, settings):
    for run in group_segments(segments, settings):
        assert sum(len(piece.text.split()) for piece in run) <= settings.max_words


@given(segment_lists(), chunk_settings())
def test_passages_and_what_is_in_them_are_in_the_order_of_their_starts(segments, settings):
    runs = group_segments(segments, settings)
    assert all(run for run in runs)
    assert all(a.start_ms <= b.start_ms for run in runs for a, b in itertools.pairwise(run))
    assert all(a[0].start_ms <= b[0].start_ms and a[-1].start_ms <= b[-1].start_ms for a, b in itertools.pairwise(runs))


@given(segment_lists(overlapping=False), chunk_settings())
def test_where_nobody_overlaps_the_passages_keep_the_order_of_the_segments(segments, settings):
    runs = group_segments(segments, settings)
    assert all(a.idx <= b.idx for run in runs for a, b in itertools.pairwise(run))
    assert all(a[-1].idx <= b[-1].idx for a, b in itertools.pairwise(runs))


@given(segment_lists(), chunk_settings())
def test_every_passage_says_something_that_the_one_before_did_not(segments, settings):
    for before, after in itertools.pairwise(group_segments(segments, settings)):
        assert after[-1] not in before


@given(segment_lists(), chunk_settings())
def test_neighbours_never_share_more_segments_than_set(segments, settings):
    for before, after in itertools.pairwise(group_segments(segments, settings)):
        assert sum(segment in before for segment in after) <= settings.overlap_segments


@given(segment_lists(), chunk_settings())
def test_without_overlap_each_piece_is_in_one_passage(segments, settings):
    runs = group_segments(segments, settings.model_copy(update={"overlap_segments": 0}))
    pieces = [piece for run in runs for piece in run]
    assert len(pieces) == len(set(pieces))


# Where passages end


def test_a_passage_closes_at_the_first_sentence_end_from_the_target_on():
    segments = steady(8, 10, "no end")
    segments[4] = Segment(4, 40_000, 50_000, "An end!”", "en")
    assert indices(group_segments(segments, NO_OVERLAP)) == [[0, 1, 2, 3, 4], [5, 6, 7]]


def test_a_passage_closes_at_a_pause_from_the_target_on():
    before, after = steady(5, 10, "no end"), steady(4, 5, "no end")
    moved = [Segment(5 + s.idx, s.start_ms + 52_000, s.end_ms + 52_000, s.text, s.language) for s in after]
    assert indices(group_segments([*before, *moved], NO_OVERLAP)) == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]


def test_a_shorter_pause_is_no_place_to_close():
    segments = [*steady(5, 10, "no end"), Segment(5, 51_000, 59_000, "no end", "en"), Segment(6, 59_000, 79_000, "x", "en")]
    assert indices(group_segments(segments, NO_OVERLAP))[0] == [0, 1, 2, 3, 4, 5]


def test_before_the_target_neither_a_sentence_end_nor_a_pause_closes_a_passage():
    segments = steady(4, 10, "An end.", gap=3)
    assert indices(group_segments(segments, NO_OVERLAP)) == [[0, 1, 2, 3]]


def test_without_a_good_place_a_passage_is_closed_before_it_gets_too_long():
    runs = group_segments(steady(14, 10, "no end"), NO_OVERLAP)
    assert indices(runs) == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11], [12, 13]]


@pytest.mark.parametrize("text", ["End.", "End!", "End?", "End…", 'End."', "End.”", "End?)", "End.»"])
def test_a_sentence_may_end_in_any_of_its_signs_and_closing_quotes(text):
    segments = [Segment(0, 0, 46_000, text, "en"), Segment(1, 46_000, 59_000, "more", "en")]
    settings = ChunkSettings(target_s=45, max_s=60, overlap_segments=0)
    later = [Segment(2, 59_000, 80_000, "and more", "en")]
    assert indices(group_segments([*segments, *later], settings))[0] == [0]


# Overlap


@pytest.mark.parametrize("overlap", [0, 1, 2, 3])
def test_neighbours_share_as_many_segments_as_set_where_they_fit(overlap):
    runs = group_segments(steady(30, 5), ChunkSettings(overlap_segments=overlap))
    for before, after in itertools.pairwise(runs[:-1]):
        assert after[:overlap] == before[len(before) - overlap :]
        assert sum(segment in before for segment in after) == overlap


def test_a_shared_segment_that_would_make_a_passage_too_long_is_left_out():
    segments = [
        Segment(0, 0, 30_000, "a.", "en"),
        Segment(1, 30_000, 58_000, "b.", "en"),
        Segment(2, 58_000, 100_000, "c.", "en"),
    ]
    assert indices(group_segments(segments, DEFAULT)) == [[0, 1], [2]]


def test_a_passage_of_one_segment_is_not_repeated_in_the_next():
    settings = ChunkSettings(target_s=10, max_s=60, overlap_segments=1)
    assert indices(group_segments(steady(3, 20), settings)) == [[0], [1], [2]]


# The last passage


def test_a_short_rest_joins_the_passage_before_it():
    segments = [*steady(5, 10), Segment(5, 50_000, 58_000, "rest", "en")]
    assert indices(group_segments(segments, DEFAULT)) == [[0, 1, 2, 3, 4, 5]]


def test_a_rest_that_would_make_the_passage_before_it_too_long_stands_alone():
    segments = [*steady(5, 10), Segment(5, 50_000, 61_000, "rest", "en")]
    assert indices(group_segments(segments, NO_OVERLAP)) == [[0, 1, 2, 3, 4], [5]]


def test_a_rest_that_is_long_enough_stands_alone():
    settings = ChunkSettings(target_s=30, max_s=60, overlap_segments=0)
    segments = [*steady(3, 10), Segment(3, 30_000, 30_000 + SHORT_TAIL_MS, "rest", "en")]
    assert indices(group_segments(segments, settings)) == [[0, 1, 2], [3]]


def test_a_single_short_segment_is_a_passage():
    assert indices(group_segments(steady(1, 1), DEFAULT)) == [[0]]


# Segments that are too long


def test_a_long_segment_is_split_between_words_with_times_in_proportion():
    segment = Segment(7, 10_000, 130_000, "a b c d e f g h", "en")
    runs = group_segments([segment], NO_OVERLAP)
    assert [[(p.idx, p.start_ms, p.end_ms, p.text) for p in run] for run in runs] == [
        [(7, 10_000, 40_000, "a b"), (7, 40_000, 70_000, "c d")],
        [(7, 70_000, 100_000, "e f"), (7, 100_000, 130_000, "g h")],
    ]


def test_words_that_cannot_be_shared_out_equally_still_give_no_piece_that_is_too_long():
    runs = group_segments([Segment(0, 0, 121_000, "a b c d", "en")], NO_OVERLAP)
    assert max(length_ms(run) for run in runs) <= 60_000


@given(st.integers(60_001, 10_000_000), st.integers(1, 300))
def test_the_pieces_of_a_long_segment_follow_each_other_within_its_times(duration, n_words):
    text = " ".join(f"w{i}" for i in range(n_words))
    pieces = [p for run in group_segments([Segment(0, 500, 500 + duration, text, "en")], NO_OVERLAP) for p in run]
    assert (pieces[0].start_ms, pieces[-1].end_ms) == (500, 500 + duration)
    assert all(a.end_ms == b.start_ms for a, b in itertools.pairwise(pieces))
    assert " ".join(piece.text for piece in pieces) == text


def test_a_long_segment_of_one_word_is_left_as_it_is():
    segment = Segment(0, 0, 200_000, "Aaah", "en")
    assert group_segments([segment], DEFAULT) == [[segment]]


@given(segment_lists(), chunk_settings())
def test_no_piece_of_more_than_a_word_is_longer_than_thirty_seconds(segments, settings):
    pieces = [piece for run in group_segments(segments, settings) for piece in run]
    assert all(p.end_ms - p.start_ms <= LONG_SEGMENT_MS for p in pieces if len(p.text.split()) > 1)


def test_a_long_segment_whose_words_have_times_is_split_where_they_are_said():
    words = tuple((f" {word}", start) for word, start in [("a", 1_000), ("b", 2_000), ("c", 28_000), ("d", 30_000)])
    pieces = split_long(Segment(0, 0, 40_000, "a b c d", "en", words), 30_000)
    assert [(piece.start_ms, piece.end_ms, piece.text) for piece in pieces] == [(0, 28_000, "a b"), (28_000, 40_000, "c d")]


@pytest.mark.parametrize(
    "words",
    [
        (("a", 1_000), ("b", 2_000)),  # not the words of the text
        (("a", 1_000), ("b", 2_000), ("c", 0), ("d", 30_000)),  # not in order
        (("a", 1_000), ("b", 2_000), ("c", 35_000), ("d", 36_000)),  # the first piece would be too long
        (),
    ],
)
def test_word_times_that_are_of_no_use_leave_the_times_in_proportion(words):
    pieces = split_long(Segment(0, 0, 40_000, "a b c d", "en", words), 30_000)
    assert [piece.start_ms for piece in pieces] == [0, 20_000]


def test_words_that_the_recogniser_cuts_differently_still_tell_their_times():
    words = ((" one", 0), (" twenty", 5_000), ("-five", 6_000), (" six", 25_000), (" end", 27_000))
    pieces = split_long(Segment(0, 0, 40_000, "one twenty-five six end", "en", words), 30_000)
    assert [(piece.start_ms, piece.text) for piece in pieces] == [(0, "one twenty-five"), (25_000, "six end")]


def test_a_short_segment_of_very_many_words_is_split_in_equal_shares_of_its_time():
    runs = group_segments([Segment(0, 0, 20_000, " ".join(f"w{i}" for i in range(5_000)), "en")], DEFAULT)
    pieces = [run[-1] for run in runs]
    assert " ".join(piece.text for piece in pieces).split() == [f"w{i}" for i in range(5_000)]
    assert {len(piece.text.split()) for piece in pieces} == {217, 218}
    assert (pieces[0].start_ms, pieces[-1].end_ms) == (0, 20_000)


def test_a_shared_segment_that_would_give_a_passage_too_many_words_is_left_out():
    segments = [Segment(i, i * 5_000, (i + 1) * 5_000, "x " * n, "en") for i, n in enumerate((10, 15, 10))]
    assert indices(group_segments(segments, ChunkSettings(max_words=25))) == [[0, 1], [1, 2]]
    assert indices(group_segments(segments, ChunkSettings(max_words=24))) == [[0], [1], [2]]


# Chapters


def timed(*starts_s: float) -> pa.Table:
    return notes(*({"heading": f"At {start}", "text": "x", "start_ms": round(start * 1000)} for start in starts_s))


def transcript_of(segments: list[Segment]) -> pa.Table:
    return transcript(
        *({"segment_idx": s.idx, "start_ms": s.start_ms, "end_ms": s.end_ms, "text": s.text} for s in segments)
    )


def spoken_passages(segments: list[Segment], written: pa.Table) -> list[tuple[int, int]]:
    rows = cut(transcript_of(segments), written)
    return [(row["first_segment"], row["last_segment"]) for row in rows if row["layer"] == "transcript"]


def test_a_passage_ends_where_a_chapter_starts_and_the_next_repeats_nothing():
    assert spoken_passages(steady(6, 10), timed(20)) == [(0, 1), (2, 5)]


def test_a_segment_that_reaches_into_a_chapter_stays_with_what_it_began_with():
    assert spoken_passages(steady(6, 10), timed(25)) == [(0, 2), (3, 5)]


def test_a_short_chapter_is_a_passage_of_its_own():
    assert spoken_passages(steady(6, 10), timed(20, 30)) == [(0, 1), (2, 2), (3, 5)]


def test_sections_without_a_time_are_no_chapters():
    assert spoken_passages(steady(4, 10), notes({"heading": "Links", "text": "x"})) == [(0, 3)]


CHAPTERS = st.lists(st.integers(0, 600_000), max_size=6).map(sorted)


@given(segment_lists(), chunk_settings(), CHAPTERS)
def test_no_passage_has_segments_that_begin_on_both_sides_of_a_chapters_start(segments, settings, chapters):
    for run in group_segments(segments, settings, chapters):
        assert not any(run[0].start_ms < chapter <= run[-1].start_ms for chapter in chapters)


@given(segment_lists(), chunk_settings(), CHAPTERS)
def test_chapters_lose_no_word_and_make_no_passage_longer(segments, settings, chapters):
    runs = group_segments(segments, settings, chapters)
    cut_by_chapters = {piece for run in runs for piece in run}
    assert cut_by_chapters == {piece for run in group_segments(segments, settings) for piece in run}
    for run in runs:
        too_long = [piece for piece in run if piece.end_ms - piece.start_ms > settings.max_s * 1000]
        assert length_ms(run) <= settings.max_s * 1000 or all(len(piece.text.split()) <= 1 for piece in too_long)


# Another edition


def test_passages_of_another_editions_transcript_have_no_times_and_meet_no_chapter():
    rows = [
        {"start_ms": i * 10_000, "end_ms": (i + 1) * 10_000, "text": "A b.", "flags": ["wrong_edition"]} for i in range(4)
    ]
    (row,) = [row for row in cut(transcript(*rows), timed(20)) if row["layer"] == "transcript"]
    assert (row["start_ms"], row["end_ms"]) == (None, None)
    assert (row["first_segment"], row["last_segment"], row["text"]) == (0, 3, "A b. A b. A b. A b.")


# Rows


@given(segment_lists(), chunk_settings())
def test_the_same_episode_is_always_cut_the_same_way(segments, settings):
    rows = [{"segment_idx": s.idx, "start_ms": s.start_ms, "end_ms": s.end_ms, "text": s.text} for s in segments]
    assert cut(transcript(*rows), settings=settings) == cut(transcript(*rows), settings=settings)


def test_excluded_segments_are_in_no_passage():
    rows = [{"start_ms": i * 1000, "end_ms": (i + 1) * 1000, "text": f"s{i}", "excluded": i == 1} for i in range(3)]
    (row,) = cut(transcript(*rows))
    assert (row["text"], row["first_segment"], row["last_segment"]) == ("s0 s2", 0, 2)


def test_a_transcript_passage_says_which_segments_it_holds_and_from_when_to_when():
    rows = [{"segment_idx": 4 + i, "start_ms": i * 10_000, "end_ms": (i + 1) * 10_000, "text": "A b."} for i in range(9)]
    first, second = cut(transcript(*rows))
    assert (first["first_segment"], first["last_segment"], first["start_ms"], first["end_ms"]) == (4, 8, 0, 50_000)
    assert (second["first_segment"], second["last_segment"], second["start_ms"], second["end_ms"]) == (8, 12, 40_000, 90_000)
    assert (first["layer"], first["heading"], first["n_words"]) == ("transcript", None, 10)


def test_a_passage_ends_with_the_speaker_who_ends_last():
    rows = [{"start_ms": 0, "end_ms": 9_000, "text": "long"}, {"start_ms": 1_000, "end_ms": 2_000, "text": "yes"}]
    assert cut(transcript(*rows))[0]["end_ms"] == 9_000


def test_a_passage_is_in_the_language_of_most_of_its_text():
    rows = [("cs", "ahoj"), ("en", "a much longer sentence"), ("cs", "ano")]
    table = transcript(*({"start_ms": i, "end_ms": i + 1, "language": lang, "text": t} for i, (lang, t) in enumerate(rows)))
    assert cut(table)[0]["language"] == "en"


def test_ids_count_up_in_each_layer_and_lead_back_to_the_episode():
    spoken = transcript(*({"start_ms": i * 50_000, "end_ms": (i + 1) * 50_000, "text": "A."} for i in range(2)))
    written = notes({"text": "One."}, {"text": "Two."})
    rows = cut(spoken, written)
    assert [row["chunk_id"] for row in rows] == ["ep01:n000", "ep01:n001", "ep01:t000", "ep01:t001"]
    assert [row["chunk_idx"] for row in rows] == [0, 1, 0, 1]


def test_an_episode_of_nothing_has_no_passages_but_the_right_columns():
    assert cut_episode("ep01", TRANSCRIPTS.empty_table(), NOTES.empty_table(), DEFAULT).equals(CHUNKS.empty_table())


# Notes


def test_a_section_is_a_passage_with_its_heading_and_time():
    (row,) = cut(None, notes({"heading": "Slow electrons", "start_ms": 5_000, "text": "They drift.", "language": "cs"}))
    assert (row["heading"], row["start_ms"], row["end_ms"], row["text"]) == ("Slow electrons", 5_000, None, "They drift.")
    assert (row["layer"], row["language"], row["first_segment"]) == ("notes", "cs", None)


def test_a_section_that_is_only_a_heading_is_found_by_it():
    (row,) = cut(None, notes({"heading": "Slow electrons", "text": ""}))
    assert row["text"] == "Slow electrons"


def test_a_section_of_nothing_is_no_passage():
    assert cut(None, notes({"heading": None, "text": ""}, {"heading": None, "text": " \n "})) == []


def test_each_part_of_a_long_section_keeps_the_heading():
    text = " ".join(f"This is sentence number {i}." for i in range(20))
    rows = cut(None, notes({"heading": "Long", "text": text}), ChunkSettings(notes_max_words=20))
    assert len(rows) == 5
    assert {row["heading"] for row in rows} == {"Long"}


def test_the_digest_of_a_passage_covers_its_heading():
    one, other = cut(None, notes({"heading": "A", "text": "same"}, {"heading": "B", "text": "same"}))
    assert one["text_sha256"] == hashlib.sha256(b"A\nsame").hexdigest()
    assert one["text_sha256"] != other["text_sha256"]


def test_what_is_indexed_of_a_passage_begins_with_its_heading():
    assert indexed_text("Slow electrons", "They drift.") == "Slow electrons\nThey drift."
    assert indexed_text(None, "They drift.") == "They drift."


TEXTS = st.lists(st.sampled_from(["one", "two.", "three!", "four?\n", "five…", "\n"]), max_size=80).map(" ".join)


@given(TEXTS, st.integers(1, 12))
def test_no_word_is_lost_when_text_is_split(text, max_words):
    assert " ".join(split_text(text, max_words)).split() == text.split()


@given(TEXTS, st.integers(1, 12))
def test_no_part_of_a_text_has_more_words_than_allowed_or_none(text, max_words):
    assert all(1 <= len(part.split()) <= max_words for part in split_text(text, max_words))


def test_text_is_cut_between_sentences_where_they_are_short_enough():
    assert split_text("One two three. Four five. Six.", 4) == ["One two three.", "Four five. Six."]


def test_a_sentence_that_is_too_long_is_cut_between_words():
    assert split_text("one two three four five", 2) == ["one two", "three four", "five"]


def test_timed_items_under_one_heading_are_points_within_its_chapter():
    items = notes(*({"heading": "Talk", "text": "x", "start_ms": start * 1000} for start in (20, 30, 40)))
    assert spoken_passages(steady(6, 10), items) == [(0, 1), (2, 5)]


@pytest.mark.parametrize("heading", ["Timestamps", None])
def test_times_under_the_only_heading_that_has_any_are_chapters_if_they_are_a_minute_apart(heading):
    items = [{"heading": heading, "text": "x", "start_ms": start * 1_000} for start in (0, 120, 1_200)]
    links = {"heading": "Links", "text": "x"}
    assert chapter_starts(notes(*items, links).to_pylist()) == [0, 120_000, 1_200_000]
    close = {"heading": heading, "text": "x", "start_ms": 150_000}
    assert chapter_starts(notes(*items, close).to_pylist()) == [0]
    another = {"heading": "Talk", "text": "x", "start_ms": 600_000}
    assert chapter_starts(notes(*items, another).to_pylist()) == [0, 600_000]
