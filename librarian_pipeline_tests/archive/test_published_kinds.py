"""What real published transcripts are like: one small example of each kind."""

import json
from pathlib import Path
from typing import Any

import pytest

from librarian_pipeline.archive.published import edition_gap_ms, is_other_edition
from librarian_pipeline_tests.archive.test_published import cues, flags, read, stamp, vtt


def texts(transcript: Any) -> list[str]:
    return [row["text"] for row in transcript.rows]


def words_as_json(*words: tuple[float, float, str], speaker: str | None = None) -> str:
    segments = [{"startTime": start, "endTime": end, "body": body, "speaker": speaker} for start, end, body in words]
    return json.dumps({"version": "1.0.0", "segments": segments})


def adds_up(counts: dict[str, int]) -> bool:
    left_out = sum(n for name, n in counts.items() if name.startswith(("merged_", "rejected_")))
    return counts["read"] == counts["kept"] + left_out


# Rolling captions


def test_captions_of_two_rolling_lines_say_each_line_once(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        vtt(
            ("00:00.000", "00:02.000", "the kettle went<00:00:00.800><c> cold</c>"),
            ("00:02.000", "00:02.010", "the kettle went cold"),
            ("00:02.010", "00:04.000", "the kettle went cold\nand<00:00:02.500><c> nobody noticed</c>"),
            ("00:04.000", "00:04.010", "and nobody noticed"),
            ("00:04.010", "00:06.000", "and nobody noticed\nuntil supper"),
        ),
    )
    assert cues(transcript) == [
        (0, 2_000, None, "the kettle went cold"),
        (2_010, 4_000, None, "and nobody noticed"),
        (4_010, 6_000, None, "until supper"),
    ]
    assert transcript.counts == {"read": 5, "kept": 3, "merged_rolling": 2}
    assert flags(transcript) == [[], ["rolling"], ["rolling"]]


def test_captions_that_grow_word_by_word_become_one_sentence(tmp_path: Path) -> None:
    spoken = ["The", "kettle", "went", "cold."]
    found = [(f"00:0{i}.000", f"00:0{i + 1}.000", " ".join(spoken[: i + 1])) for i in range(4)]
    transcript = read(tmp_path, vtt(*found))
    assert cues(transcript) == [(0, 4_000, None, "The kettle went cold.")]
    assert transcript.counts == {"read": 4, "kept": 1, "merged_words": 3}


def test_captions_that_repeat_half_their_words_keep_each_word_once_and_do_not_overlap(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        vtt(
            ("00:00.000", "00:04.000", "we boiled the water"),
            ("00:02.000", "00:06.000", "the water was hard"),
            ("00:04.000", "00:08.000", "was hard to find"),
        ),
    )
    assert cues(transcript) == [
        (0, 2_000, None, "we boiled the water"),
        (2_000, 4_000, None, "was hard"),
        (4_000, 8_000, None, "to find"),
    ]


def test_one_word_that_is_said_twice_is_no_repetition_even_among_rolling_captions(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        vtt(
            ("00:00.000", "00:02.000", "we boiled the water"),
            ("00:02.000", "00:04.000", "the water was very"),
            ("00:04.000", "00:06.000", "was very hard to find"),
            ("00:06.000", "00:08.000", "find out why"),
        ),
    )
    assert texts(transcript) == ["we boiled the water", "was very", "hard to find", "find out why"]


def test_a_file_in_which_one_cue_happens_to_begin_as_another_ended_keeps_all_words(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        vtt(
            ("00:00.000", "00:02.000", "Well, it was very cold."),
            ("00:02.000", "00:04.000", "Very cold. And then it rained."),
            ("00:04.000", "00:06.000", "It was very cold indeed."),
        ),
    )
    assert sum(len(text.split()) for text in texts(transcript)) == 16


# A word a cue


def test_json_with_a_word_a_segment_is_merged_into_sentences_that_know_when_each_word_is_said(tmp_path: Path) -> None:
    words = [
        (0, 0.4, "Tea"),
        (0.4, 0.9, "is"),
        (0.9, 1.5, "hot"),
        (1.5, 1.5, "."),
        (1.6, 2, "Milk"),
        (2, 2.4, "is"),
        (2.4, 3, "not."),
    ]
    transcript = read(tmp_path, words_as_json(*words))
    assert cues(transcript) == [(0, 1_600, None, "Tea is hot."), (1_600, 3_000, None, "Milk is not.")]
    assert transcript.counts == {"read": 7, "kept": 2, "merged_words": 5}
    assert [(word["word"], word["start_ms"]) for word in transcript.rows[1]["words"]] == [
        ("Milk", 1_600),
        ("is", 2_000),
        ("not.", 2_400),
    ]


def test_webvtt_with_a_word_a_cue_is_merged_up_to_a_pause_or_another_turn(tmp_path: Path) -> None:
    spoken = [(0, "tea"), (1, "please"), (5, "more"), (6, "milk"), (7, "&gt;&gt; none"), (8, "left")]
    transcript = read(tmp_path, vtt(*((f"00:0{s}.000", f"00:0{s + 1}.000", text) for s, text in spoken)))
    assert texts(transcript) == ["tea please", "more milk", "none left"]


def test_words_of_different_speakers_are_not_merged(tmp_path: Path) -> None:
    spoken = [(0, "<v Ola>tea"), (1, "<v Ola>please"), (2, "<v Jan>no"), (3, "<v Jan>tea")]
    transcript = read(tmp_path, vtt(*((f"00:0{s}.000", f"00:0{s + 1}.000", text) for s, text in spoken)))
    assert [cue[2:] for cue in cues(transcript)] == [("Ola", "tea please"), ("Jan", "no tea")]


def test_words_that_never_end_a_sentence_are_merged_into_segments_of_bounded_length(tmp_path: Path) -> None:
    transcript = read(tmp_path, words_as_json(*((i / 2, i / 2 + 0.5, f"w{i}") for i in range(200))))
    assert max(end - start for start, end, _, _ in cues(transcript)) <= 15_000
    assert " ".join(texts(transcript)).split() == [f"w{i}" for i in range(200)]
    assert adds_up(transcript.counts)


def test_short_answers_stay_segments_of_their_own(tmp_path: Path) -> None:
    found = [(f"00:0{i}.000", f"00:0{i + 1}.000", text) for i, text in enumerate(("Yes.", "No.", "Maybe!", "Why?"))]
    assert len(read(tmp_path, vtt(*found)).rows) == 4


# Times


def test_a_cue_that_ends_before_it_starts_keeps_its_words_and_start(tmp_path: Path) -> None:
    transcript = read(tmp_path, vtt(("00:09.000", "00:08.000", "Backwards."), ("00:12.000", "00:13.000", "Good.")))
    assert cues(transcript) == [(9_000, 12_000, None, "Backwards."), (12_000, 13_000, None, "Good.")]
    assert flags(transcript) == [["bad_end"], []]


def test_overlapping_cues_are_both_kept_and_the_later_one_is_flagged(tmp_path: Path) -> None:
    transcript = read(
        tmp_path, vtt(("00:01.000", "00:05.000", "So I said to her"), ("00:03.000", "00:06.000", "No, never!"))
    )
    assert cues(transcript) == [(1_000, 5_000, None, "So I said to her"), (3_000, 6_000, None, "No, never!")]
    assert flags(transcript) == [[], ["overlapping"]]


def test_two_voices_of_one_cue_do_not_count_as_overlapping(tmp_path: Path) -> None:
    assert flags(read(tmp_path, vtt(("00:01.000", "00:05.000", "<v Ola>Tea?\n<v Jan>No.")))) == [[], []]


def test_a_cue_without_a_duration_is_flagged_and_does_not_swallow_the_silence_after_it(tmp_path: Path) -> None:
    transcript = read(tmp_path, vtt(("00:01.000", "00:01.000", "One."), ("09:00.000", "09:01.000", "Two.")))
    assert cues(transcript)[0] == (1_000, 31_000, None, "One.")
    assert flags(transcript) == [["no_duration"], []]


def test_a_start_that_goes_back_is_sorted_and_flagged(tmp_path: Path) -> None:
    found = [("00:05.000", "00:06.000", "Late."), ("00:01.000", "00:02.000", "Early."), ("00:07.100", "00:08.000", "Last.")]
    transcript = read(tmp_path, vtt(*found))
    assert texts(transcript) == ["Early.", "Late.", "Last."]
    assert flags(transcript) == [["out_of_order"], [], []]


def test_a_cue_over_thirty_seconds_is_kept_whole_and_flagged(tmp_path: Path) -> None:
    transcript = read(
        tmp_path, vtt(("00:01.500", "02:43.000", "A very long story about tea."), ("02:43.000", "03:13.000", "x y"))
    )
    assert cues(transcript)[0] == (1_500, 163_000, None, "A very long story about tea.")
    assert flags(transcript) == [["long_cue"], []]


def test_a_file_of_whole_seconds_is_flagged_once(tmp_path: Path) -> None:
    found = [(f"00:0{i}.000", f"00:0{i + 1}.500", f"Line number {i}.") for i in range(4)]
    assert [row.count("whole_seconds") for row in flags(read(tmp_path, vtt(*found)))] == [1, 0, 0, 0]


def test_hours_over_99_are_read(tmp_path: Path) -> None:
    assert cues(read(tmp_path, "1\n123:00:01,000 --> 123:00:02,000\nStill here.\n"))[0][0] == 123 * 3_600_000 + 1_000


# Text


def test_one_line_265_times_is_one_row_with_the_time_of_the_first(tmp_path: Path) -> None:
    found = [(stamp(i * 2_100, "."), stamp(i * 2_100 + 2_000, "."), "The tea is ready.") for i in range(265)]
    transcript = read(tmp_path, vtt(*found))
    assert cues(transcript) == [(0, 2_000, None, "The tea is ready.")]
    assert transcript.counts == {"read": 265, "kept": 1, "merged_repeats": 264}
    assert flags(transcript) == [["repeated"]]


def test_a_few_repetitions_are_speech(tmp_path: Path) -> None:
    found = [(stamp(i * 2_100, "."), stamp(i * 2_100 + 2_000, "."), "Go on, pour.") for i in range(4)]
    assert len(read(tmp_path, vtt(*found)).rows) == 4


@pytest.mark.parametrize(
    "marker", ["[BLANK_AUDIO]", "[music] [laughs]", "(applause)", "*soft music*", "♪ ♪", "<i>[Music]</i>"]
)
def test_a_marker_of_what_is_no_speech_is_left_out_and_counted(tmp_path: Path, marker: str) -> None:
    transcript = read(tmp_path, vtt(("00:01.000", "00:02.000", marker), ("00:03.000", "00:04.000", "Tea.")))
    assert texts(transcript) == ["Tea."]
    assert transcript.counts == {"read": 2, "kept": 1, "rejected_non_speech": 1}


@pytest.mark.parametrize("spoken", ["(I would never say that aloud)", "[sighs] All right.", "♪ la la la ♪"])
def test_speech_beside_or_inside_a_marker_is_kept(tmp_path: Path, spoken: str) -> None:
    assert texts(read(tmp_path, vtt(("00:01.000", "00:02.000", spoken)))) == [spoken]


def test_a_machines_marker_within_speech_is_taken_out(tmp_path: Path) -> None:
    assert texts(read(tmp_path, vtt(("00:01.000", "00:02.000", "Tea. [BLANK_AUDIO] Milk.")))) == ["Tea. Milk."]


def test_a_file_that_says_that_nobody_speaks_has_no_rows(tmp_path: Path) -> None:
    transcript = read(tmp_path, vtt(("00:01.000", "00:02.000", "[BLANK_AUDIO]")))
    assert (transcript.rows, transcript.counts) == ([], {"read": 1, "kept": 0, "rejected_non_speech": 1})


@pytest.mark.parametrize(
    ("written", "speaker", "spoken"),
    [
        (">> Tea, please.", None, "Tea, please."),
        ("- Tea?\n- No.", None, "Tea? No."),
        (">> OLA: Tea, please.", "OLA", "Tea, please."),
        ("-5 degrees - cold.", None, "-5 degrees - cold."),
    ],
)
def test_signs_of_another_turn_name_nobody_and_are_no_text(
    tmp_path: Path, written: str, speaker: str | None, spoken: str
) -> None:
    content = f"00:00:01,000 --> 00:00:02,000\n{written}\n\n00:00:03,000 --> 00:00:04,000\n{written}\n"
    assert cues(read(tmp_path, content)) == [(1_000, 2_000, speaker, spoken), (3_000, 4_000, speaker, spoken)]


def test_speakers_are_kept_as_they_are_written(tmp_path: Path) -> None:
    document = {"segments": [{"startTime": 1, "endTime": 2, "body": "Tea.", "speaker": "dr. OLA  (guest #2)"}]}
    assert cues(read(tmp_path, json.dumps(document)))[0][2] == "dr. OLA (guest #2)"


# Bytes


def test_nul_bytes_and_control_characters_are_dropped(tmp_path: Path) -> None:
    content = b"WEB\x00VTT\n\n00:01.000 --> 00:02.000\nT\x00ea\x07 is \x1bhot.\n"
    assert texts(read(tmp_path, content)) == ["Tea is hot."]
    escaped = r'{"segments": [{"startTime": 1, "body": "T\u0000ea."}]}'
    assert texts(read(tmp_path, escaped)) == ["Tea."]


def test_a_line_in_another_encoding_does_not_spoil_the_others(tmp_path: Path) -> None:
    content = vtt(("00:01.000", "00:02.000", "Zelený čaj.")).encode() + "\n\n00:03.000 --> 00:04.000\nKäse.\n".encode(
        "cp1252"
    )
    assert texts(read(tmp_path, content)) == ["Zelený čaj.", "Käse."]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "cp1252"])
def test_json_and_captions_are_read_in_any_usual_encoding(tmp_path: Path, encoding: str) -> None:
    assert texts(read(tmp_path, '{"segments": [{"startTime": 1, "body": "Käse – ja."}]}'.encode(encoding))) == ["Käse – ja."]
    assert texts(read(tmp_path, vtt(("00:01.000", "00:02.000", "Käse – ja.")).encode(encoding))) == ["Käse – ja."]


def test_mixed_line_ends_are_line_ends(tmp_path: Path) -> None:
    content = "WEBVTT\r\n\r00:01.000 --> 00:02.000\rTea\r\nand milk.\n\r\n00:03.000 --> 00:04.000\nNo.\r"
    assert texts(read(tmp_path, content)) == ["Tea and milk.", "No."]


# Editions


def test_the_gap_between_editions_is_the_same_whichever_is_longer() -> None:
    assert edition_gap_ms(60_000, 100_000) == edition_gap_ms(100_000, 60_000) == 40_000


@pytest.mark.parametrize(
    ("transcript_end_ms", "durations_ms", "other"),
    [
        (100_000, (130_000,), False),
        (100_000, (130_001,), True),
        (100_000, (69_999,), True),
        (100_000, (40_000, 101_000), False),  # cut or damaged audio whose header still tells its length
        (100_000, (), False),
        (100_000, (None, 0), False),
    ],
)
def test_a_transcript_is_of_another_edition_when_its_end_is_far_from_every_length_of_the_audio(
    transcript_end_ms: int, durations_ms: tuple[int | None, ...], other: bool
) -> None:
    assert is_other_edition(transcript_end_ms, durations_ms, 30) is other
