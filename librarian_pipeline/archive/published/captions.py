"""WebVTT and SubRip: cues under lines with two times.

No word is lost in silence: text is part of a cue, or of one that is rejected and counted, or counted as stray text.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from librarian_pipeline.archive.plain_text import one_line
from librarian_pipeline.archive.published.cues import Parsed, Rejected, make_cue
from librarian_pipeline.archive.timecodes import parse_timecode

# As many cues of a file must begin with the same `Name:` for that to be a speaker rather than speech.
MIN_SPEAKER_CUES = 2

# The first is an arrow as it should be; the others are what people, word processors and web pages make of it.
_ARROW = re.compile(r"(?P<proper>-->)|[-–—]{1,3}\s?>|-{1,2}&gt;|→")
_CLOCK = re.compile(r"[0-9]:[0-9]")
_DIGIT = re.compile(r"[0-9]")
_TIME = re.compile(r"(?P<clock>[0-9:]+)(?:[.,](?P<fraction>[0-9]{1,9}))?")
_CUE_SETTING = re.compile(r"(?:vertical|line|position|size|align|region|[XY][12]):", re.IGNORECASE)
_INDEX = re.compile(r"\s*[0-9]+\s*")
_VTT_BLOCK_TO_SKIP = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")
_VTT_METADATA = re.compile(r"[^\s:=]+\s*[:=]")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]*)>")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<[0-9][0-9:.,]*>|\{\\[^{}]*\}")
_SPEAKER_PREFIX = re.compile(r"([^\W\d_][\w.'’-]*(?: \w[\w.'’-]*){0,3}):\s+(?=\S)")
# These say that somebody else speaks, and not who.
_TURN = re.compile(r"\s*(?:>>+\s*|[-–—]\s+)")


@dataclass(frozen=True)
class _Timing:
    """A line with an arrow between two times, in milliseconds; None where one can't be read."""

    start_ms: int | None
    end_ms: int | None
    before: str = ""
    """words before the times, if these can be read"""
    after: str = ""
    """words after the times that are no settings of the cue"""


def vtt_cues(text: str) -> Iterator[Parsed]:
    """The cues of a WebVTT file, with `\\n` as line ends; one for each voice of a cue, one for text outside of any."""
    blocks = re.split(r"\n\s*\n", text.lstrip())
    kept = "\n\n".join(block for block in blocks if not _VTT_BLOCK_TO_SKIP.match(block))
    head, cues = _timed_lines(_without_header(kept.split("\n")))
    yield from _stray("\n".join(_without_identifier(["", *head])))
    for position, (timing, lines) in enumerate(cues, start=1):
        yield from _stray(timing.before)
        body = lines if position == len(cues) else _without_identifier(lines)
        for speaker, (spoken, begins_turn) in _voices(_body(timing, body)):
            yield make_cue(timing.start_ms, timing.end_ms, spoken, speaker, begins_turn=begins_turn)


def srt_cues(text: str) -> Iterator[Parsed]:
    """The cues of an SRT file, with `\\n` as line ends, and one for text outside of any.

    Indexes may be missing, and blank lines be part of a cue.
    """
    head, cues = _timed_lines(text.split("\n"))
    yield from _stray("\n".join(_without_index(head) if cues else head))
    bodies = [_without_index(lines) for _, lines in cues[:-1]] + [lines for _, lines in cues[-1:]]
    plain = [_plain(_body(timing, body)) for (timing, _), body in zip(cues, bodies, strict=True)]
    speakers = _speakers(words for words, _ in plain)
    for (timing, _), (words, begins_turn) in zip(cues, plain, strict=True):
        yield from _stray(timing.before)
        speaker, spoken = _split_speaker(words, speakers)
        yield make_cue(timing.start_ms, timing.end_ms, spoken, speaker, begins_turn=begins_turn)


def _body(timing: _Timing, lines: list[str]) -> str:
    return "\n".join([timing.after, *lines] if timing.after else lines)


def _stray(text: str) -> Iterator[Parsed]:
    if _plain(text)[0]:
        yield Rejected.STRAY_TEXT


def _without_header(lines: list[str]) -> list[str]:
    """The lines after `WEBVTT` that are no metadata such as `Kind: captions`, which end at a blank line or a timing."""
    for number, line in enumerate(lines[1:], start=1):
        if not line.strip() or _timing(line, lines[number - 1]) or not _VTT_METADATA.match(line):
            return lines[number:]
    return []


def _timed_lines(lines: list[str]) -> tuple[list[str], list[tuple[_Timing, list[str]]]]:
    """The lines before the first timing; and each timing, with the lines from there up to the next one."""
    head: list[str] = []
    cues: list[tuple[_Timing, list[str]]] = []
    for before, line in zip(["", *lines], lines, strict=False):
        if timing := _timing(line, before):
            cues.append((timing, []))
        else:
            (cues[-1][1] if cues else head).append(line)
    return head, cues


def _without_index(lines: list[str]) -> list[str]:
    """The lines above a timing, without the number that belongs to that."""
    return lines[:-1] if lines and _INDEX.fullmatch(lines[-1]) else lines


def _without_identifier(lines: list[str]) -> list[str]:
    """The lines above a timing, without the number, or the one line between a blank one and the timing, that name it."""
    alone = len(lines) >= 2 and not lines[-2].strip()
    return lines[:-1] if alone else _without_index(lines)


def _timing(line: str, line_before: str) -> _Timing | None:
    """The times of a line that is meant to have two, however damaged; None for any other line."""
    arrow = _ARROW.search(line)
    if arrow is None:
        return None
    left, right = line[: arrow.start()].split(), line[arrow.end() :].split()
    if not _is_meant_as_timing([*left[-1:], *right[:1]], line_before, proper=arrow["proper"] is not None):
        return None
    start_ms = _time_ms(left[-1:])
    if start_ms is None:
        return _Timing(None, None)
    before = [] if _INDEX.fullmatch(" ".join(left[:-1])) else left[:-1]
    end_ms = _time_ms(right[:1])
    rest = right if end_ms is None and right and not _DIGIT.search(right[0]) else right[1:]
    after = [] if rest and _CUE_SETTING.match(rest[0]) else rest
    return _Timing(start_ms, end_ms, " ".join(before), " ".join(after))


def _is_meant_as_timing(beside_arrow: Sequence[str], line_before: str, *, proper: bool) -> bool:
    """Whether an arrow stands between times rather than words: `Four --> five` in the middle of a cue is speech."""
    if not proper:
        return any(_CLOCK.search(word) for word in beside_arrow)
    where_a_cue_begins = not line_before.strip() or _INDEX.fullmatch(line_before) is not None
    return where_a_cue_begins or any(_DIGIT.search(word) for word in beside_arrow)


def _time_ms(words: Sequence[str]) -> int | None:
    """Milliseconds of the only word, with any number of digits of a second from one to nine; None if it is no time."""
    match = _TIME.fullmatch(words[0]) if words else None
    if match is None:
        return None
    try:
        return parse_timecode(match["clock"]) + int((match["fraction"] or "").ljust(3, "0")[:3])
    except ValueError:
        return None


def _voices(body: str) -> list[tuple[str | None, tuple[str, bool]]]:
    """(speaker, plain text) for each voice in a WebVTT cue, or one without text."""
    before, *rest = _VOICE.split(body)
    names = [None, *(_plain(name)[0] for name in rest[::2])]
    texts = [_plain(text) for text in (before, *rest[1::2])]
    voices = [(name, text) for name, text in zip(names, texts, strict=True) if text[0]]
    return voices or [(None, ("", False))]


def _plain(text: str) -> tuple[str, bool]:
    """The words without markup on one line, and whether they begin with a mark that somebody else speaks."""
    # Tags first: an escaped `&lt;i&gt;` is text.
    lines = html.unescape(_TAG.sub("", text)).split("\n")
    begins_turn = _TURN.match(lines[0]) is not None
    return one_line("\n".join(_TURN.sub("", line, count=1) if _TURN.match(line) else line for line in lines)), begins_turn


def _speakers(texts: Iterable[str]) -> frozenset[str]:
    """The names that enough of the texts of an SRT file begin with."""
    counts = Counter(name for text in texts if (name := _speaker_prefix(text)))
    return frozenset(name for name, n in counts.items() if n >= MIN_SPEAKER_CUES)


def _speaker_prefix(text: str) -> str | None:
    """What may be a name in front of a colon: up to four capitalised words or numbers."""
    match = _SPEAKER_PREFIX.match(text)
    if match is None or not all(word[0].isupper() or word[0].isdigit() for word in match[1].split()):
        return None
    return match[1]


def _split_speaker(text: str, speakers: frozenset[str]) -> tuple[str | None, str]:
    """(speaker, text) of an SRT cue that may begin with one of `speakers` and a colon."""
    name = _speaker_prefix(text)
    return (name, text[len(name) + 1 :].lstrip()) if name in speakers and name else (None, text)
