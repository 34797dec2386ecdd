"""WebVTT and SubRip: cues under lines with two times."""

import html
import itertools
import re
from collections.abc import Iterator

from librarian_pipeline.archive.plain_text import one_line
from librarian_pipeline.archive.published.cues import Parsed, make_cue
from librarian_pipeline.archive.timecodes import parse_timecode

_TIMING = re.compile(r"\s*(?P<start>-?[0-9]\S*?)\s*-->\s*(?P<end>\S+)")
_INDEX = re.compile(r"\s*[0-9]+\s*")
_VTT_BLOCK_TO_SKIP = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]*)>")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<[0-9][0-9:.,]*>|\{\\[^{}]*\}")
_SPEAKER_PREFIX = re.compile(r"([^\W\d_][\w.'’-]*(?: \w[\w.'’-]*){0,3}):\s+(?=\S)")
# These say that somebody else speaks, and not who.
_TURN = re.compile(r"\s*(?:>>+\s*|[-–—]\s+)")


def vtt_cues(text: str) -> Iterator[Parsed]:
    """The cues of a WebVTT file, with `\\n` as line ends; one for each voice of a cue."""
    blocks = re.split(r"\n\s*\n", text)
    kept = "\n\n".join(block for block in blocks if not _VTT_BLOCK_TO_SKIP.match(block))
    for timing, lines in _timed_lines(kept):
        # What follows a blank line is the next cue's identifier.
        body = "\n".join(itertools.takewhile(str.strip, lines))
        for speaker, (spoken, begins_turn) in _voices(body):
            yield _timed_cue(timing, spoken, speaker, begins_turn)


def srt_cues(text: str) -> Iterator[Parsed]:
    """The cues of an SRT file, with `\\n` as line ends. Indexes may be missing, and blank lines be part of a cue."""
    for timing, lines in _timed_lines(text):
        plain, begins_turn = _plain("\n".join(lines))
        speaker, spoken = _split_speaker(plain)
        yield _timed_cue(timing, spoken, speaker, begins_turn)


def _timed_lines(text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    """Each line with two times, and the lines from there up to the next one, without the index that belongs to that."""
    lines = text.split("\n")
    timings = [(index, match) for index, line in enumerate(lines) if (match := _TIMING.match(line))]
    ends = [*(index for index, _ in timings[1:]), len(lines)]
    for (index, timing), end in zip(timings, ends, strict=False):
        body = lines[index + 1 : end]
        if end < len(lines) and body and _INDEX.fullmatch(body[-1]):
            body.pop()
        yield timing, body


def _timed_cue(timing: re.Match[str], text: str, speaker: str | None, begins_turn: bool) -> Parsed:
    return make_cue(_time_ms(timing["start"]), _time_ms(timing["end"]), text, speaker, begins_turn=begins_turn)


def _time_ms(text: str) -> int | None:
    try:
        return parse_timecode(text)
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


def _split_speaker(text: str) -> tuple[str | None, str]:
    """(speaker, text) of an SRT cue that may begin with `Name:`, where a name is up to four capitalised words or numbers."""
    match = _SPEAKER_PREFIX.match(text)
    if match is None or not all(word[0].isupper() or word[0].isdigit() for word in match[1].split()):
        return None, text
    return match[1], text[match.end() :]
