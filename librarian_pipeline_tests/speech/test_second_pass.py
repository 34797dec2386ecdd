from typing import Any

import numpy as np
import pytest

from librarian_pipeline.settings import CheckSettings, TranscriptSettings
from librarian_pipeline.speech.rows import Row
from librarian_pipeline.speech.second_pass import flagged_windows, with_second_pass
from librarian_pipeline_tests.speech.sounds import drone, silence
from librarian_pipeline_tests.speech.stand_in import segment, transcriber

CHECKS = CheckSettings()
HEARD = [(0, 1_000_000)]
LOOP = "and so we went on " * 8


def row(text: str, start_ms: int, decoding_pass: int = 1, **changes: Any) -> Row:
    plain = {"compression_ratio": 1.3, "no_speech_prob": 0.05, "words": [], "decoding_pass": decoding_pass}
    return {**plain, "text": text, "start_ms": start_ms, "end_ms": start_ms + 9_000, **changes}


def kept(windows: list[list[Row]], second: dict[int, list[Row]], heard_ms: int = 20_000) -> list[list[Row]]:
    again = flagged_windows(windows, HEARD, CHECKS)
    assert again == sorted(second)
    return with_second_pass(windows, again, second.__getitem__, lambda number: heard_ms, HEARD, CHECKS)


PLAIN = [row("The river froze twice.", 0)]
LOOPING = [row(LOOP, 30_000)]


def test_only_windows_with_severe_flags_are_decoded_again():
    slow = [row("Far too long.", 60_000, end_ms=100_000)]
    assert flagged_windows([PLAIN, LOOPING, slow], HEARD, CHECKS) == [1]
    assert flagged_windows([], HEARD, CHECKS) == []


def test_a_second_pass_without_the_loop_is_kept():
    better = [row("And so we went on, and on.", 30_000, 2)]
    assert kept([PLAIN, LOOPING], {1: better}) == [PLAIN, better]


def test_at_a_tie_the_first_pass_stays():
    assert kept([PLAIN, LOOPING], {1: [row(LOOP, 30_000, 2)]}) == [PLAIN, LOOPING]


def test_a_worse_flag_loses_and_a_lesser_one_wins_however_long_it_is():
    invented = [row("Thank you.", 30_000, 2, no_speech_prob=0.9)]
    assert kept([LOOPING], {0: invented}) == [LOOPING]
    compressed = [row("Something else.", 30_000, 2, compression_ratio=2.5, end_ms=59_000)]
    assert kept([LOOPING], {0: compressed}) == [compressed]


def test_with_the_same_flag_fewer_seconds_of_it_win():
    shorter = [row(LOOP, 30_000, 2, end_ms=35_000), row("Then we came home.", 35_000, 2)]
    assert kept([LOOPING], {0: shorter}) == [shorter]


def test_a_loop_is_not_traded_for_a_hole_unless_there_is_nothing_to_hear():
    assert kept([LOOPING], {0: []}) == [LOOPING]
    assert kept([LOOPING], {0: []}, heard_ms=999) == [[]]
    doubted = [row(LOOP, 30_000, no_speech_prob=0.9)]
    assert kept([doubted], {0: []}) == [[]]


def test_a_loop_across_windows_is_seen_and_broken_where_another_pass_heard_something_else():
    windows = [[row("Thank you all.", number * 30_000)] for number in range(5)]
    heard_now = [row("The bridge was gone.", 60_000, 2)]
    second = {number: [row("Thank you all.", number * 30_000, 2)] for number in range(5)} | {2: heard_now}
    assert kept(windows, second) == [*windows[:2], heard_now, *windows[3:]]


# A stand-in model from here on: voice activity detection takes the drone for speech, and the model says what it is told.
SOUND = drone(50)


def says(first: list[Any], second: list[Any], asked: list[tuple[int, int]]) -> Any:
    def say(samples: np.ndarray, **options: Any) -> list[Any]:
        asked.append((samples.size, options.get("no_repeat_ngram_size", 0)))
        return second if options.get("no_repeat_ngram_size") else first

    return say


FIRST = [segment(0, 24, "The river froze twice."), segment(25, 45, LOOP, seek=2_500, compression_ratio=4.0)]


def test_the_flagged_window_alone_is_decoded_again_and_its_times_are_those_of_the_audio():
    asked: list[tuple[int, int]] = []
    second = [segment(1, 18, "And so we went on, and came home.")]
    sound = np.concatenate([silence(10), SOUND])
    found = transcriber(says(FIRST, second, asked)).transcribe(sound, "ep01", "en")
    start_ms = found.speech[0][0] - 370
    assert [no_repeat for _, no_repeat in asked] == [0, 3]
    assert asked[1][0] == asked[0][0] - 25 * 16_000
    assert [(row["text"], row["decoding_pass"], row["window_id"]) for row in found.rows] == [
        ("The river froze twice.", 1, 0),
        ("And so we went on, and came home.", 2, 1),
    ]
    assert found.rows[1]["start_ms"] == pytest.approx(start_ms + 26_000, abs=50)
    assert (found.windows_again, found.windows_won, found.rows[1]["flags"]) == (1, 1, [])


@pytest.mark.parametrize(("next_seek", "seconds"), [(2_000, 20), (4_000, 30)])
def test_a_window_reaches_to_the_next_one_but_no_further_than_whisper_listens(next_seek, seconds):
    asked: list[tuple[int, int]] = []
    first = [segment(0, 18, LOOP), segment(next_seek / 100, 45, "The river froze twice.", seek=next_seek)]
    transcriber(says(first, [], asked)).transcribe(SOUND, "ep01", "en")
    assert asked[1:] == [(seconds * 16_000, 3)]


def test_progress_stays_within_the_audio_whatever_times_whisper_gives():
    reports: list[tuple[float, float]] = []
    wild = [segment(0, 30, "The river froze."), segment(10, 20, "It thawed."), segment(49, 90, "So it went.")]
    transcriber(says(wild, [], [])).transcribe(SOUND, "ep01", "en", lambda done, total: reports.append((done, total)))
    assert reports == sorted(reports)
    assert {total for _, total in reports} == {50.0}
    assert reports[-1] == (50.0, 50.0)


def test_without_a_second_pass_the_loop_stays_flagged_and_in_the_passages():
    asked: list[tuple[int, int]] = []
    found = transcriber(says(FIRST, [], asked), transcripts=TranscriptSettings(second_pass=False)).transcribe(
        SOUND, "e", "en"
    )
    assert len(asked) == 1
    loop = found.rows[1]
    assert {"repetition_loop", "compression"} <= set(loop["flags"])
    assert (loop["excluded"], loop["decoding_pass"], found.windows_again) == (False, 1, 0)


def test_what_stays_invented_in_both_passes_is_excluded_and_covers_nothing():
    thanks = [segment(0, 3, "Thank you.", no_speech_prob=0.9)]
    found = transcriber(says(thanks, thanks, [])).transcribe(SOUND, "ep01", "en")
    assert [(row["flags"], row["excluded"], row["decoding_pass"]) for row in found.rows] == [
        (["invented_in_silence"], True, 1)
    ]
    assert found.coverage.covered_ms == 0
    assert len(found.coverage.uncovered) == 1


def test_progress_counts_what_is_decoded_again_and_never_goes_back():
    reports: list[tuple[float, float]] = []
    transcriber(says(FIRST, [], [])).transcribe(SOUND, "ep01", "en", lambda done, total: reports.append((done, total)))
    for values in zip(*reports, strict=True):
        assert list(values) == sorted(values)
    assert all(done <= total for done, total in reports)
    assert reports[0][1] == 50.0
    assert reports[-1][0] == reports[-1][1] > 70.0


def test_a_real_model_that_loops_on_a_drone_is_asked_again_and_nothing_of_it_reaches_the_passages(tiny_en):
    found = tiny_en.transcribe(drone(30), "ep01", "en")
    assert found.speech
    assert found.windows_again >= 1
    assert [row for row in found.rows if not row["excluded"]] == []
