import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.settings import CheckSettings
from librarian_pipeline.speech.flags import (
    COMPRESSION,
    INVENTED_IN_SILENCE,
    OUTSIDE_SPEECH,
    REPETITION_LOOP,
    SEVERITY,
    TOO_FAST,
    TOO_LONG,
    TYPICAL_INVENTIONS,
    content_flags,
    normalized,
    overlap_ms,
    repeats_within,
    repetitions,
)

SCRIPT = Path(__file__).parents[1] / "sample_archive" / "scripts" / "ep06.times.json"
CHECKS = CheckSettings()
ALL_SPEECH = [(0, 10_000_000)]
SENTENCES = [
    "The river froze twice in nineteen sixty three.",
    "Nobody in the valley had seen anything like it before.",
    "Children crossed on skates, and the baker on a sledge.",
    "By March the ice had gone, all in a single night.",
    "What was left of the bridge lay two miles further down.",
]


def row(text: str, start_ms: int = 0, end_ms: int | None = None, **changes: Any) -> dict[str, Any]:
    plain = {"compression_ratio": 1.3, "no_speech_prob": 0.05, "words": [], "start_ms": start_ms}
    return {**plain, "text": text, "end_ms": start_ms + 4_000 if end_ms is None else end_ms, **changes}


def rows(*texts: str) -> list[dict[str, Any]]:
    return [row(text, number * 5_000) for number, text in enumerate(texts)]


def flags(one: dict[str, Any], heard: list[tuple[int, int]] = ALL_SPEECH) -> set[str]:
    return content_flags([one], heard, CHECKS)[0]


def test_plain_speech_has_no_flag():
    assert content_flags(rows(*SENTENCES), ALL_SPEECH, CHECKS) == [set()] * 5


def test_identical_segments_in_a_row_are_a_loop_however_they_are_written():
    texts = [SENTENCES[0], "And so on.", "and so on", "And so on!", "And so on.", "And, so on.", SENTENCES[1]]
    assert [REPETITION_LOOP in found for found in content_flags(rows(*texts), ALL_SPEECH, CHECKS)] == [
        False,
        *[True] * 5,
        False,
    ]


def test_one_less_is_no_loop_nor_is_a_refrain():
    texts = ["And so on."] * 4 + [SENTENCES[0]] + ["And so on."] * 4
    assert repetitions(rows(*texts), CHECKS) == set()


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        ("I'm sorry, " * 5, True),
        ("We went there. " + "and then we " * 5, True),
        ("no " * 12, True),
        ("No, no, no, no, no.", False),
        ("I'm sorry, " * 3, False),
        ("one two three four five six seven eight nine ten eleven twelve " * 5, True),
        (" ".join(SENTENCES), False),
        ("", False),
    ],
)
def test_words_that_come_again_and_again_are_a_loop(text, loop):
    assert repeats_within(text, 5) is loop
    assert (REPETITION_LOOP in flags(row(text, 0, 20_000))) is loop


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=12), st.integers(2, 8), st.lists(st.sampled_from("xyz"))
)
def test_any_words_said_often_enough_are_a_loop_wherever_they_stand(words, times, around):
    text = " ".join([*around, *words * times, *reversed(around)])
    if len(words) * times >= 9:
        assert repeats_within(text, times)


@given(st.integers(0, 300))
def test_numbers_that_are_counted_are_no_loop(n):
    assert not repeats_within(" ".join(str(number) for number in range(n)), 2)


def test_a_minute_that_says_next_to_nothing_new_is_a_loop_and_the_speech_around_it_is_not():
    speech = [sentence["text"] for sentence in json.loads(SCRIPT.read_text(encoding="utf-8"))]
    mill = ["The mill and the miller, the miller and the mill.", "The mill, the miller, the mill."] * 10
    assert repetitions(rows(*speech[:15], *mill, *speech[15:30]), CHECKS) == set(range(15, 35))


def test_the_window_of_a_loop_is_a_minute_not_the_whole_episode():
    apart = [row(text, number * 70_000) for number, text in enumerate([SENTENCES[0], SENTENCES[1]] * 20)]
    assert repetitions(apart, CHECKS) == set()


NOBODY: list[tuple[int, int]] = [(20_000, 30_000)]


@pytest.mark.parametrize(
    ("silent", "doubted", "hollow", "invented"),
    [
        (1, 1, 1, True),
        (1, 1, 0, True),
        (1, 0, 1, True),
        (0, 1, 1, True),
        (1, 0, 0, False),
        (0, 1, 0, False),
        (0, 0, 1, False),
    ],
)
def test_two_of_three_witnesses_make_an_invention(silent, doubted, hollow, invented):
    text = "Thank you for watching!" if hollow else SENTENCES[0]
    one = row(text, no_speech_prob=0.9 if doubted else 0.1)
    found = flags(one, NOBODY if silent else ALL_SPEECH)
    assert (INVENTED_IN_SILENCE in found, OUTSIDE_SPEECH in found) == (invented, bool(silent))


@pytest.mark.parametrize(
    "hollow",
    [
        {"text": "..."},
        {"text": "I'm sorry, " * 9},
        {"text": SENTENCES[0], "compression_ratio": 3.0},
        {"text": SENTENCES[0], "words": [{"probability": 0.2}, {"probability": 0.35}]},
    ],
)
def test_what_is_hollow(hollow):
    assert INVENTED_IN_SILENCE in flags({**row("", 0, 12_000, no_speech_prob=0.9), **hollow})
    assert INVENTED_IN_SILENCE not in flags({**row("", 0, 12_000), **hollow})


def test_phrases_of_inventions_are_written_as_they_are_compared():
    assert [phrase for phrase in TYPICAL_INVENTIONS if normalized(phrase) != phrase] == []


def test_thresholds_are_those_of_the_settings():
    assert flags(row(" ".join(SENTENCES)[:181])) == {TOO_FAST}
    assert flags(row(" ".join(SENTENCES)[:180])) == set()
    assert flags(row("Hello.", 0, 0)) == {TOO_FAST, OUTSIDE_SPEECH}
    assert flags(row("Hello.", 0, 30_001)) == {TOO_LONG}
    assert flags(row("Hello.", 0, 30_000)) == set()
    assert flags(row("Hello.", compression_ratio=2.41)) == {COMPRESSION}
    assert flags(row("Hello.", compression_ratio=2.4)) == set()
    strict = CheckSettings(max_characters_per_s=1, max_segment_s=1, max_compression_ratio=1.1, max_repeats=2)
    assert content_flags([row("Hello."), row("Hello.")], ALL_SPEECH, strict)[0] >= {
        TOO_FAST,
        TOO_LONG,
        COMPRESSION,
        REPETITION_LOOP,
    }


def test_what_makes_for_a_second_pass_is_what_is_severe():
    assert sorted(SEVERITY, key=lambda flag: -SEVERITY[flag]) == [INVENTED_IN_SILENCE, REPETITION_LOOP, COMPRESSION]


@given(st.integers(0, 99), st.integers(0, 99), st.sets(st.integers(0, 99)))
def test_the_overlap_is_what_counting_gives(first, second, borders):
    start, end = sorted((first, second))
    flat = sorted(borders)[: len(borders) // 2 * 2]
    spans = list(zip(flat[::2], flat[1::2], strict=True))
    counted = sum(any(low <= ms < high for low, high in spans) for ms in range(start, end))
    assert overlap_ms(start, end, spans) == counted
