"""What a reader of any format makes of each cue: a `Cue`, or the reason why it can't be used."""

import re
from dataclasses import dataclass
from enum import StrEnum


class Flag(StrEnum):
    """What to know of a row before trusting its times or its text."""

    BAD_END = "bad_end"
    """ends before it starts, or at a time that is none"""
    NO_DURATION = "no_duration"
    OUT_OF_ORDER = "out_of_order"
    """stood after a cue that starts later"""
    OVERLAPPING = "overlapping"
    """starts before an earlier one has ended"""
    LONG_CUE = "long_cue"
    ROLLING = "rolling"
    """stood with words of the cue before it, which are left out"""
    REPEATED = "repeated"
    """stands for a whole run of cues with the same text"""
    WHOLE_SECONDS = "whole_seconds"
    """on the first row: all times of the file are whole seconds"""
    WRONG_EDITION = "wrong_edition"
    """the transcript is of another edition than the audio, so its times are not those of the audio"""


class Rejected(StrEnum):
    """Why a cue is left out."""

    BAD_TIME = "bad_time"
    NO_TEXT = "no_text"
    NON_SPEECH = "non_speech"
    NO_SEGMENT = "no_segment"
    """an entry of JSON segments that is no object"""
    STRAY_TEXT = "stray_text"
    """words of a caption file that belong to no cue"""


@dataclass(frozen=True)
class Word:
    text: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Cue:
    """Times in milliseconds; `end_ms` is None where the file gives none that makes sense."""

    start_ms: int
    end_ms: int | None
    text: str
    speaker: str | None = None
    begins_turn: bool = False
    flags: tuple[Flag, ...] = ()
    words: tuple[Word, ...] = ()


Parsed = Cue | Rejected

_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*$")

# `[BLANK_AUDIO]`, `(applause)`, `*music*`, `♪`. Round brackets and asterisks hold speech too, so only a few words count.
_FEW_WORDS = r"\s*[^\W\d_]+(?:\s+[^\W\d_]+){0,2}\s*"
_NON_SPEECH = re.compile(rf"(?:\[[^\[\]]*\]|\({_FEW_WORDS}\)|\*{_FEW_WORDS}\*|[♩♪♫♬\s])+")
# What whisper.cpp writes into running text.
_MACHINE_MARKER = re.compile(r"\[(?:[A-Z]+_[A-Z_]+|_[A-Z]+_[0-9]*)\]")


def ends_sentence(text: str) -> bool:
    """Whether `text` ends with a sign that ends a sentence, and closing quotes or brackets after it."""
    return _SENTENCE_END.search(text) is not None


def make_cue(
    start_ms: int | None,
    end_ms: int | None,
    text: str,
    speaker: str | None = None,
    *,
    begins_turn: bool = False,
    has_end: bool = True,
) -> Parsed:
    """A cue of one line of `text`. A time that can't be read is None; `has_end` is False where the format allows none.

    An end that makes no sense costs only the end: the words are good.
    """
    if start_ms is None:
        return Rejected.BAD_TIME
    if not text:
        return Rejected.NO_TEXT
    if _NON_SPEECH.fullmatch(text):
        return Rejected.NON_SPEECH
    spoken = " ".join(_MACHINE_MARKER.sub(" ", text).split())
    flags: tuple[Flag, ...] = ()
    if has_end and (end_ms is None or end_ms < start_ms):
        flags, end_ms = (Flag.BAD_END,), None
    elif end_ms == start_ms:
        flags, end_ms = (Flag.NO_DURATION,), None
    return Cue(start_ms, end_ms, spoken, speaker or None, begins_turn, flags)
