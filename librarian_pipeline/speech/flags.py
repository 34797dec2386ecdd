"""What can be wrong with a segment, told from its text and times: flags, and how severe they are.

A flag is a word in the column `flags`. It says that something is off, not that the text is wrong: flagged segments stay in
the table. Only those that were invented are excluded from the passages.
"""

import bisect
import re
import zlib
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from librarian_pipeline.settings import CheckSettings
from librarian_pipeline.speech.samples import MsSpan

REPETITION_LOOP = "repetition_loop"
"""The same segment, or the same words within it, again and again; or a minute of text that says next to nothing new."""
COMPRESSION = "compression"
"""The text of its 30 s window compresses better than speech does."""
INVENTED_IN_SILENCE = "invented_in_silence"
"""Made up where there is only silence, noise or music. At least two of three witnesses say so: nobody is heard; Whisper
itself doubts that its window is speech; the text is nothing that is said (`_is_hollow`)."""
OUTSIDE_SPEECH = "outside_speech"
"""Where nobody is heard."""
TOO_FAST = "too_fast"
"""More characters a second than anyone speaks."""
TOO_LONG = "too_long"
"""Longer than a segment should be: its start says little about where a word in it is."""
CLAMPED = "clamped"
"""A time lay outside the audio, and was moved to its border."""
REORDERED = "reordered"
"""It came after a segment that starts later."""
NO_WORD_TIMES = "no_word_times"
"""The words couldn't be aligned with the audio: times are those of the segment only."""

SEVERITY: Mapping[str, int] = {INVENTED_IN_SILENCE: 3, REPETITION_LOOP: 2, COMPRESSION: 1}
"""The flags for which a window is decoded once more, with how bad each is. The others have no severity."""

# Whisper's own threshold for silence.
MAX_NO_SPEECH_PROB = 0.6
# On average over a segment. Czech, of which the packaged model gets every second word wrong, is at 0.5 and more.
MIN_WORD_PROBABILITY = 0.3
LOOP_WINDOW_MS = 60_000
# Of a text's bytes, those by which the compressed minute around it grows: 0.4 and more for speech, up to 0.13 in a loop.
MAX_ADDED_SHARE = 0.25
# Up to a sentence's length. `No, no, no, no, no` is said by people, so a loop has to go on for some words.
MAX_LOOP_NGRAM = 12
MIN_LOOP_WORDS = 9

TYPICAL_INVENTIONS = frozenset(
    {
        "amara org",
        "bye",
        "bye bye",
        "děkuji",
        "děkuji za pozornost",
        "děkujeme za pozornost",
        "děkuji za sledování",
        "ďakujem za pozornosť",
        "merci",
        "music",
        "oh",
        "okay",
        "please subscribe",
        "please subscribe to my channel",
        "silence",
        "so",
        "sous titres réalisés par la communauté d amara org",
        "sous titrage st 501",
        "subtitles by the amara org community",
        "thank you",
        "thank you for watching",
        "thank you so much",
        "thank you so much for watching",
        "thank you very much",
        "thanks",
        "thanks for listening",
        "thanks for watching",
        "the end",
        "titulky vytvořil johnyx",
        "titulky vytvořil johny x",
        "untertitel der amara org community",
        "untertitelung des zdf 2020",
        "vielen dank",
        "vielen dank fürs zuschauen",
        "we ll be right back",
        "www titulky com",
        "you",
    }
)
"""What Whisper says where there is nothing to hear: endings of subtitles. In lower case, without punctuation."""

_WORD = re.compile(r"[^\W_]+")


def content_flags(rows: Sequence[Mapping[str, Any]], heard: Sequence[MsSpan], checks: CheckSettings) -> list[set[str]]:
    """The flags of each segment that follow from its text, its times, and what is around it.

    `rows` are segments of `schemas.TRANSCRIPTS` in their order, `heard` the spans of speech, sorted.
    """
    looping = repetitions(rows, checks)
    return [_flags(row, number in looping, heard, checks) for number, row in enumerate(rows)]


def is_doubted(row: Mapping[str, Any]) -> bool:
    """Whether Whisper itself takes the window of a segment for silence; that depends on the sound alone, not on the text."""
    return bool(row["no_speech_prob"] > MAX_NO_SPEECH_PROB)


def repetitions(rows: Sequence[Mapping[str, Any]], checks: CheckSettings) -> set[int]:
    """The numbers of the segments that belong to a loop; of a published transcript as well."""
    within = {number for number, row in enumerate(rows) if repeats_within(row["text"], checks.max_repeats)}
    return within | _in_a_row(rows, checks.max_repeats) | _in_a_minute(rows, checks.max_compression_ratio)


def normalized(text: str) -> str:
    """The words in lower case, a space between them."""
    return " ".join(_WORD.findall(text.lower()))


def compression_ratio(text: str) -> float:
    """How many times smaller zlib makes a text, as Whisper computes it; 0 for none."""
    return len(text.encode()) / _compressed_size(text)


def repeats_within(text: str, max_repeats: int) -> bool:
    """Whether some words come at least `max_repeats` times one right after another."""
    words = _WORD.findall(text.lower())
    for n in range(1, min(MAX_LOOP_NGRAM, len(words) // max_repeats) + 1):
        # Equal to the word n places before, k times in a row: the n words have come (k + n) / n times.
        same = [word == earlier for word, earlier in zip(words[n:], words, strict=False)]
        longest = max((len(list(run)) for equal, run in groupby(same) if equal), default=0) + n
        if longest >= max(max_repeats * n, MIN_LOOP_WORDS):
            return True
    return False


def overlap_ms(start_ms: int, end_ms: int, spans: Sequence[MsSpan]) -> int:
    """How much of a stretch the sorted spans cover, in milliseconds."""
    covered = 0
    for span_start, span_end in spans[bisect.bisect_right(spans, start_ms, key=lambda span: span[1]) :]:
        if span_start >= end_ms:
            break
        covered += min(end_ms, span_end) - max(start_ms, span_start)
    return covered


def _flags(row: Mapping[str, Any], looping: bool, heard: Sequence[MsSpan], checks: CheckSettings) -> set[str]:
    length_ms = row["end_ms"] - row["start_ms"]
    silent = not overlap_ms(row["start_ms"], row["end_ms"], heard)
    compressed = row["compression_ratio"] > checks.max_compression_ratio
    hollow = looping or compressed or _is_hollow(row)
    found = {
        OUTSIDE_SPEECH: silent,
        INVENTED_IN_SILENCE: silent + is_doubted(row) + hollow >= 2,
        REPETITION_LOOP: looping,
        COMPRESSION: compressed,
        TOO_FAST: len(row["text"]) * 1_000 > checks.max_characters_per_s * length_ms,
        TOO_LONG: length_ms > checks.max_segment_s * 1_000,
    }
    return {flag for flag, applies in found.items() if applies}


def _is_hollow(row: Mapping[str, Any]) -> bool:
    """Whether a text has no word, is a phrase that Whisper says into silence, or is one that it guessed word by word."""
    text = normalized(row["text"])
    probabilities = [word["probability"] for word in row["words"]]
    guessed = bool(probabilities) and sum(probabilities) / len(probabilities) < MIN_WORD_PROBABILITY
    return not text or text in TYPICAL_INVENTIONS or guessed


def _in_a_row(rows: Sequence[Mapping[str, Any]], max_repeats: int) -> set[int]:
    """The segments of each run of at least `max_repeats` identical ones."""
    found: set[int] = set()
    for text, run in groupby(range(len(rows)), key=lambda number: normalized(rows[number]["text"])):
        numbers = list(run)
        if text and len(numbers) >= max_repeats:
            found.update(numbers)
    return found


def _in_a_minute(rows: Sequence[Mapping[str, Any]], max_ratio: float) -> set[int]:
    """What makes a minute of text compress too well; a minute begins with each segment."""
    found: set[int] = set()
    end = 0
    for first, row in enumerate(rows):
        end = max(end, first + 1)
        while end < len(rows) and rows[end]["end_ms"] <= row["start_ms"] + LOOP_WINDOW_MS:
            end += 1
        texts = [rows[number]["text"] for number in range(first, end)]
        if compression_ratio(" ".join(texts)) > max_ratio:
            found.update(first + number for number in _redundant(texts))
    return found


def _redundant(texts: Sequence[str]) -> list[int]:
    """The texts that the others nearly contain. Without this, a sentence would be flagged for the loop that follows it."""
    together = _compressed_size(" ".join(texts))
    found = []
    for number, text in enumerate(texts):
        added = together - _compressed_size(" ".join([*texts[:number], *texts[number + 1 :]]))
        if added < MAX_ADDED_SHARE * len(text.encode()):
            found.append(number)
    return found


def _compressed_size(text: str) -> int:
    return len(zlib.compress(text.encode()))
