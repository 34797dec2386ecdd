"""What the checks let pass, what they don't, and what they say of it."""

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.checks import Outcome, Severity, audio_outcomes, embedding_outcomes, find, transcript_outcomes
from librarian_pipeline.settings import CheckSettings
from librarian_pipeline.storage.schemas import AUDIO, SPEECH_SPANS, TOKEN_COUNTS, TRANSCRIPTS

SETTINGS = CheckSettings()
GOOD = "So the kettle was already warm when we came in from the garden."


def audio_row(**changes: Any) -> dict[str, Any]:
    row = {"episode_id": "ep01", "duration_header_ms": 60_000, "duration_last_packet_ms": 60_000, "status": "ok"}
    return {**dict.fromkeys(AUDIO.names), **row, "duration_decoded_ms": 60_000, **changes}


def segment(start_s: float, end_s: float, text: str = GOOD, **changes: Any) -> dict[str, Any]:
    times = {"start_ms": round(start_s * 1000), "end_ms": round(end_s * 1000)}
    row = {"episode_id": "ep01", "language": "en", "source": "whisper", "flags": [], "excluded": False}
    return {**dict.fromkeys(TRANSCRIPTS.names), **row, **times, "text": text, **changes}


def steady(n: int) -> list[dict[str, Any]]:
    """Sentences of words that come once."""
    letters = random.Random(3)
    words = ["".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(n * 10)]
    return [segment(5 * i, 5 * i + 5, " ".join(words[10 * i : 10 * i + 10])) for i in range(n)]


def tokens(chunk_id: str, n: int | None, limit: int | None = 512) -> dict[str, Any]:
    return {"chunk_id": chunk_id, "n_tokens": n, "max_tokens": limit}


def outcomes(segments: list[dict[str, Any]], speech: list[tuple[int, int]] | None = None) -> dict[str, Outcome]:
    heard = [(0, 60_000)] if speech is None else speech
    return {outcome.check: outcome for outcome in transcript_outcomes(segments, heard, audio_row(), SETTINGS)}


def test_good_audio_and_a_good_transcript_pass_every_check() -> None:
    assert all(outcome.passed for outcome in audio_outcomes(audio_row(), SETTINGS))
    assert [outcome.message for outcome in outcomes(steady(12)).values() if not outcome.passed] == []


def test_a_whole_vbr_mp3_passes_though_the_header_that_was_estimated_promises_more() -> None:
    (outcome,) = audio_outcomes(audio_row(duration_header_ms=95_000), SETTINGS)
    assert (outcome.passed, outcome.value) == (True, 0)


@pytest.mark.parametrize(("decoded_ms", "passed"), [(60_000, True), (58_500, True), (57_000, False), (30_000, False)])
def test_decoded_audio_may_miss_no_more_than_two_seconds_of_a_minute(decoded_ms: int, passed: bool) -> None:
    (outcome,) = audio_outcomes(audio_row(duration_decoded_ms=decoded_ms), SETTINGS)
    assert outcome.passed == passed
    assert outcome.value == pytest.approx((60_000 - decoded_ms) / 1000)


def test_a_partial_file_is_told_with_its_reason() -> None:
    (outcome,) = audio_outcomes(audio_row(status="partial", status_reason="0.4 s lost at 00:30"), SETTINGS)
    assert (outcome.passed, outcome.message, outcome.severity) == (False, "0.4 s lost at 00:30", Severity.WARN)


def test_a_file_that_gave_no_audio_is_its_statuss_business() -> None:
    assert audio_outcomes(audio_row(duration_decoded_ms=None, status="unreadable"), SETTINGS) == []


@pytest.mark.parametrize(
    "wrong",
    [
        [segment(10, 15), segment(5, 10)],
        [segment(10, 10)],
        [segment(55, 61)],
        [segment(-1, 5)],
    ],
    ids=["going back", "no length", "beyond the audio", "before it"],
)
def test_times_out_of_order_or_range_are_an_error_that_names_the_second(wrong: list[dict[str, Any]]) -> None:
    outcome = outcomes(wrong)["times"]
    assert (outcome.passed, outcome.severity) == (False, Severity.ERROR)
    assert "1 segments out of order or range, the first at " in outcome.message


def test_speech_without_text_is_told_with_its_minute() -> None:
    outcome = outcomes(steady(6))["speech_coverage"]
    assert not outcome.passed
    assert outcome.value == pytest.approx(0.508, abs=0.01)
    assert "00:30-01:00" in outcome.message


def test_text_that_was_left_out_covers_nothing() -> None:
    left_out = [{**row, "excluded": True} for row in steady(12)[6:]]
    assert not outcomes([*steady(12)[:6], *left_out])["speech_coverage"].passed


def test_without_detected_speech_there_is_nothing_to_cover() -> None:
    assert "speech_coverage" not in outcomes(steady(2), speech=[])


def test_five_equal_segments_in_a_row_are_a_loop() -> None:
    looping = [segment(5 * i, 5 * i + 5, "Thank you for watching.") for i in range(5)]
    outcome = outcomes(looping)["loops"]
    assert not outcome.passed
    assert outcome.value == 5


def test_text_faster_than_anybody_speaks_is_told() -> None:
    outcome = outcomes([segment(0, 1, "x" * 46), *steady(3)])["speaking_rate"]
    assert (outcome.passed, outcome.value) == (False, 1)


@pytest.mark.parametrize("flag", ["invented_in_silence", "repetition_loop", "compression"])
@pytest.mark.parametrize(
    ("flagged_s", "passed", "severity"),
    [(0.29, True, Severity.WARN), (0.5, False, Severity.WARN), (3, False, Severity.ERROR)],
)
def test_what_is_invented_or_loops_warns_and_then_fails(
    flagged_s: float, passed: bool, severity: Severity, flag: str
) -> None:
    outcome = outcomes([*steady(11), segment(55, 55 + flagged_s, flags=[flag])])["hallucination_rate"]
    assert (outcome.passed, outcome.severity) == (passed, severity)
    assert outcome.value == pytest.approx(flagged_s / 60)


def test_other_flags_are_no_invention() -> None:
    rows = [segment(5 * i, 5 * i + 5, row["text"], flags=["too_fast", "clamped"]) for i, row in enumerate(steady(12))]
    assert outcomes(rows)["hallucination_rate"].value == 0


def test_invention_is_measured_against_the_speech_that_is_heard_and_without_any_against_the_transcript() -> None:
    rows = [*steady(5), segment(25, 30, flags=["repetition_loop"])]
    assert outcomes(rows, [(0, 20_000), (30_000, 60_000)])["hallucination_rate"].value == pytest.approx(5 / 50)
    assert outcomes(rows, [])["hallucination_rate"].value == pytest.approx(5 / 30)


def test_music_over_which_whisper_thanks_does_not_fail_the_run() -> None:
    thanks = segment(10, 12, "Thank you.", flags=["invented_in_silence", "outside_speech"], excluded=True)
    outcome = outcomes([thanks], [])["hallucination_rate"]
    assert (outcome.passed, outcome.value) == (True, 0)
    assert "all that was transcribed is left out" in outcome.message


def test_an_episode_in_two_languages_is_told() -> None:
    mixed = [*steady(6), *({**row, "language": "cs"} for row in steady(12)[6:])]
    assert not outcomes(mixed)["language"].passed


def test_another_edition_is_told() -> None:
    published = [segment(0, 5, source="vtt", flags=["wrong_edition"])]
    assert "passages have no times" in outcomes(published)["edition"].message
    assert not outcomes(published)["edition"].passed


def test_a_passage_longer_than_the_model_reads_is_named() -> None:
    rows = [tokens("ep01:t000", 100), tokens("ep01:t001", 513)]
    (outcome,) = embedding_outcomes(rows, SETTINGS)
    assert (outcome.passed, outcome.value) == (False, 513)
    assert "ep01:t001" in outcome.message


def test_the_limit_is_the_models_own() -> None:
    (outcome,) = embedding_outcomes([tokens("ep01:t000", 300, limit=256)], SETTINGS)
    assert not outcome.passed


def test_a_model_that_reads_any_length_is_not_asked() -> None:
    assert embedding_outcomes([tokens("ep01:t000", None, limit=None)], SETTINGS) == []


def test_findings_are_those_that_did_not_pass_by_episode() -> None:
    found = find(
        pa.Table.from_pylist([audio_row(status="partial", status_reason="cut")], schema=AUDIO),
        pa.Table.from_pylist(steady(6), schema=TRANSCRIPTS),
        pa.Table.from_pylist([{"episode_id": "ep01", "start_ms": 0, "end_ms": 60_000}], schema=SPEECH_SPANS),
        pa.Table.from_pylist([tokens("ep02:t000", 999)], schema=TOKEN_COUNTS),
        SETTINGS,
    )
    assert {episode: [finding["check"] for finding in findings] for episode, findings in found.items()} == {
        "ep01": ["decode_loss", "speech_coverage"],
        "ep02": ["token_length"],
    }


SEGMENTS = st.lists(
    st.builds(
        segment,
        st.floats(-10, 100),
        st.floats(-10, 100),
        st.text(max_size=80),
        excluded=st.booleans(),
        language=st.sampled_from(["en", "cs"]),
    ),
    max_size=8,
)


@given(SEGMENTS, st.lists(st.tuples(st.integers(0, 30_000), st.integers(30_001, 60_000)), max_size=1))
def test_no_transcript_is_too_odd_to_be_checked(segments: list[dict[str, Any]], speech: list[tuple[int, int]]) -> None:
    for outcome in transcript_outcomes(segments, speech, audio_row(), SETTINGS):
        assert outcome.message
