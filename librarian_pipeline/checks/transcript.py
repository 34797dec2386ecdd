"""Checks of `transcripts`, with thresholds calibrated on 750 hours of a real archive's transcripts."""

from collections.abc import Mapping, Sequence
from typing import Any

from librarian_pipeline.archive.published import Flag
from librarian_pipeline.archive.timecodes import format_timecode
from librarian_pipeline.checks.outcome import Outcome, Severity
from librarian_pipeline.settings import CheckSettings
from librarian_pipeline.speech.coverage import coverage
from librarian_pipeline.speech.flags import SEVERITY, repetitions

TIMES, COVERAGE, LOOPS, RATE = "times", "speech_coverage", "loops", "speaking_rate"
HALLUCINATION, LANGUAGE, EDITION = "hallucination_rate", "language", "edition"
TRANSCRIPT_CHECKS = {
    TIMES: "Segments lie within the audio, and their starts never go back.",
    COVERAGE: "Segments cover the speech that voice activity detection hears.",
    LOOPS: "No stretch of text repeats itself.",
    RATE: "Nobody speaks faster, or in longer segments, than people do.",
    HALLUCINATION: "Little of the text is invented, or repeats itself.",
    LANGUAGE: "The episode is in one language.",
    EDITION: "A published transcript is as long as the audio.",
}

# A segment may end this much after the audio: times are rounded, and the last word fades.
END_TOLERANCE_MS = 100
# An episode with guests may hold some sentences of another language.
MIN_MAIN_LANGUAGE_SHARE = 0.9

Segments = Sequence[Mapping[str, Any]]


def transcript_outcomes(
    segments: Segments, speech: Sequence[tuple[int, int]], audio: Mapping[str, Any] | None, settings: CheckSettings
) -> list[Outcome]:
    """Of an episode's rows of `schemas.TRANSCRIPTS`, with the spans of detected speech in ms and the row of `schemas.AUDIO`.

    None for an episode without segments: its status says so.
    """
    if not segments:
        return []
    kept = [segment for segment in segments if not segment["excluded"]]
    return [
        _times(segments, audio),
        *([_coverage(segments, speech, settings)] if speech else []),
        _loops(kept, settings),
        _rate(kept, settings),
        *([_hallucination(segments, speech, settings)] if segments[0]["source"] == "whisper" else []),
        _language(segments),
        _edition(segments),
    ]


def _at(segments: Segments) -> str:
    """Where the first of them is, to append to a message."""
    return f", the first at {format_timecode(max(0, segments[0]['start_ms']))}" if segments else ""


def _times(segments: Segments, audio: Mapping[str, Any] | None) -> Outcome:
    decoded_ms = audio["duration_decoded_ms"] if audio else None
    # A published transcript may be of another edition: its end is the edition check's concern.
    last_ms = decoded_ms + END_TOLERANCE_MS if decoded_ms and segments[0]["source"] == "whisper" else None
    wrong, before_ms = [], 0
    for segment in segments:
        beyond = last_ms is not None and segment["end_ms"] > last_ms
        if beyond or not before_ms <= segment["start_ms"] < segment["end_ms"]:
            wrong.append(segment)
        before_ms = max(before_ms, segment["start_ms"])
    return Outcome(TIMES, not wrong, f"{len(wrong)} segments out of order or range{_at(wrong)}", len(wrong), Severity.ERROR)


def _coverage(segments: Segments, speech: Sequence[tuple[int, int]], settings: CheckSettings) -> Outcome:
    found = coverage(segments, speech, settings.max_uncovered_speech_s)
    gaps = [f"{format_timecode(start)}-{format_timecode(end)}" for start, end in found.uncovered]
    message = f"{found.share:.1%} of the speech is covered" + (f"; none of {', '.join(gaps)}" if gaps else "")
    return Outcome(COVERAGE, found.share >= settings.min_speech_coverage and not gaps, message, found.share)


def _loops(kept: Segments, settings: CheckSettings) -> Outcome:
    looping = [kept[i] for i in sorted(repetitions(kept, settings))]
    return Outcome(LOOPS, not looping, f"{len(looping)} segments repeat what was said{_at(looping)}", len(looping))


def _rate(kept: Segments, settings: CheckSettings) -> Outcome:
    odd = [
        segment
        for segment in kept
        if _characters_per_s(segment) > settings.max_characters_per_s or _seconds(segment) > settings.max_segment_s
    ]
    return Outcome(RATE, not odd, f"{len(odd)} segments too fast or too long to be speech{_at(odd)}", len(odd))


def _hallucination(segments: Segments, speech: Sequence[tuple[int, int]], settings: CheckSettings) -> Outcome:
    """The seconds of segments with a severe flag, of those in which somebody speaks; without these, of the transcript's."""
    flagged = [segment for segment in segments if SEVERITY.keys() & set(segment["flags"])]
    spoken_s = sum(end - start for start, end in speech) / 1000 or sum(map(_seconds, segments))
    share = sum(map(_seconds, flagged)) / (spoken_s or 1)
    if all(segment["excluded"] for segment in segments):
        # As of an episode of music: nothing wrong is left to be found, and the catalogue says that nobody speaks.
        return Outcome(HALLUCINATION, True, "all that was transcribed is left out as invented", 0.0)
    severity = Severity.ERROR if share > settings.fail_hallucination_share else Severity.WARN
    message = f"segments as long as {share:.1%} of the speech are invented or repeat themselves{_at(flagged)}"
    return Outcome(HALLUCINATION, share <= settings.warn_hallucination_share, message, share, severity)


def _language(segments: Segments) -> Outcome:
    seconds: dict[str, float] = {}
    for segment in segments:
        seconds[segment["language"]] = seconds.get(segment["language"], 0) + _seconds(segment)
    main = max(sorted(seconds), key=seconds.__getitem__)
    share = seconds[main] / (sum(seconds.values()) or 1)
    others = [segment for segment in segments if segment["language"] != main]
    return Outcome(LANGUAGE, share >= MIN_MAIN_LANGUAGE_SHARE, f"{share:.1%} is in {main}{_at(others)}", share)


def _edition(segments: Segments) -> Outcome:
    wrong = any(Flag.WRONG_EDITION in segment["flags"] for segment in segments)
    ends = format_timecode(max(0, *(segment["end_ms"] for segment in segments)))
    said = "of another edition than the audio: its passages have no times" if wrong else "as long as the audio"
    return Outcome(EDITION, not wrong, f"the transcript, which ends at {ends}, is {said}", float(wrong))


def _seconds(segment: Mapping[str, Any]) -> float:
    return float(max(0, segment["end_ms"] - segment["start_ms"])) / 1000


def _characters_per_s(segment: Mapping[str, Any]) -> float:
    return len(segment["text"]) / max(_seconds(segment), 0.001)
