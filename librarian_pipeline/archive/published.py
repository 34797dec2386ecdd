"""Reads transcripts that came with an episode: WebVTT, SubRip (SRT), and Podcasting 2.0 JSON.

The content decides the format, not the file's suffix. The reader is tolerant: it takes comma decimals, missing hours,
missing index lines and blank lines inside SRT cues, and counts the cues that it can't use.
"""

import bisect
import contextlib
import html
import itertools
import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from librarian_pipeline.archive.timecodes import MAX_MS, MS_PER_SECOND, parse_timecode
from librarian_pipeline.errors import SourceError
from librarian_pipeline.text.languages import detect_language, parse_language

Format = Literal["vtt", "srt", "json"]

# For a last cue that doesn't say when it ends.
SPEECH_CHARACTERS_PER_S = 15
MIN_CUE_MS = 1_000

_TIMING = re.compile(r"\s*(?P<start>-?[0-9]\S*?)\s*-->\s*(?P<end>\S+)")
_INDEX = re.compile(r"\s*[0-9]+\s*")
_VTT_BLOCK_TO_SKIP = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]*)>")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<[0-9][0-9:.,]*>|\{\\[^{}]*\}")
_SPEAKER_PREFIX = re.compile(r"([^\W\d_][\w.'’-]*(?: \w[\w.'’-]*){0,3}):\s+(?=\S)")


@dataclass(frozen=True)
class PublishedTranscript:
    """A transcript as rows of `schemas.TRANSCRIPTS`, sorted by start."""

    rows: list[dict[str, Any]]
    n_rejected: int
    """cues left out, because they have no text or because their times make no sense"""
    format: Format


@dataclass(frozen=True)
class _Cue:
    start_ms: int
    end_ms: int | None
    """None where the file doesn't say"""
    text: str
    speaker: str | None


def read_published(path: Path, episode_id: str, language: str | None) -> PublishedTranscript:
    """The published transcript at `path`. Its language is the given one, else the one that JSON names, else detected.

    Raises `SourceError` if it has no usable cue.
    """
    content = path.read_bytes()
    text = unicodedata.normalize("NFC", _decode(content)).replace("\r\n", "\n").replace("\r", "\n")
    source = _detect_format(text)
    if source == "json":
        document = _load_json(content, path)
        language = language or _named_language(document)
        found = list(_json_cues(document))
    else:
        found = list(_vtt_cues(text) if source == "vtt" else _srt_cues(text))
    cues = _with_ends(sorted((cue for cue in found if cue is not None), key=lambda cue: cue.start_ms))
    if not cues:
        raise SourceError(
            f"{path.name}: {_EXPECTED[source]}", "put a whole WebVTT, SRT or Podcasting 2.0 JSON transcript there"
        )
    language = language or detect_language("\n".join(cue.text for cue in cues))
    rows = [_row(cue, episode_id, index, language, source) for index, cue in enumerate(cues)]
    return PublishedTranscript(rows, n_rejected=found.count(None), format=source)


_EXPECTED = {
    "vtt": "no cue with a time such as `00:01.000 --> 00:04.000` and a text",
    "srt": "no cue with a time such as `00:00:01,000 --> 00:00:04,000` and a text",
    "json": 'no entry of "segments" with a "startTime" in seconds and a "body"',
}


def _decode(content: bytes) -> str:
    # Old files call themselves Latin-1 and mean its Windows variant, which leaves five bytes undefined.
    for encoding in ("utf-8-sig", "cp1252"):
        with contextlib.suppress(UnicodeDecodeError):
            return content.decode(encoding)
    return content.decode("latin-1")


def _detect_format(text: str) -> Format:
    head = text.lstrip()
    if head.startswith("{"):
        return "json"
    return "vtt" if head.startswith("WEBVTT") else "srt"


def _row(cue: _Cue, episode_id: str, index: int, language: str, source: Format) -> dict[str, Any]:
    return {
        "episode_id": episode_id,
        "segment_idx": index,
        "start_ms": cue.start_ms,
        "end_ms": cue.end_ms,
        "text": cue.text,
        "language": language,
        "speaker": cue.speaker,
        "source": source,
        "avg_logprob": None,
        "no_speech_prob": None,
        "compression_ratio": None,
        "window_id": None,
        "words": None,
        "flags": [],
        "excluded": False,
    }


def _with_ends(cues: list[_Cue]) -> list[_Cue]:
    """The cues, sorted by start, each with an end: that of the file, else the next start, else a guess from its length."""
    starts = [cue.start_ms for cue in cues]
    ended = []
    for cue in cues:
        if cue.end_ms is None:
            following = bisect.bisect_right(starts, cue.start_ms)
            end_ms = starts[following] if following < len(starts) else cue.start_ms + _spoken_ms(cue.text)
            cue = replace(cue, end_ms=end_ms)
        ended.append(cue)
    return ended


def _spoken_ms(text: str) -> int:
    return max(MIN_CUE_MS, len(text) * MS_PER_SECOND // SPEECH_CHARACTERS_PER_S)


def _cue(start_ms: int, end_ms: int | None, text: str, speaker: str | None) -> _Cue | None:
    """A cue, or None where it can't be used. One without a duration counts as one without an end: its words are good."""
    if not text or (end_ms is not None and end_ms < start_ms):
        return None
    return _Cue(start_ms, None if end_ms == start_ms else end_ms, text, speaker or None)


def _one_line(text: str) -> str:
    return " ".join(text.split())


# WebVTT and SRT


def _vtt_cues(text: str) -> Iterator[_Cue | None]:
    blocks = re.split(r"\n\s*\n", text)
    kept = "\n\n".join(block for block in blocks if not _VTT_BLOCK_TO_SKIP.match(block))
    for timing, lines in _timed_lines(kept):
        # What follows a blank line is the next cue's identifier.
        body = "\n".join(itertools.takewhile(str.strip, lines))
        voices = _voices(body)
        yield from (_timed_cue(timing, spoken, speaker) for speaker, spoken in voices) if voices else [None]


def _srt_cues(text: str) -> Iterator[_Cue | None]:
    for timing, lines in _timed_lines(text):
        speaker, spoken = _split_speaker(_plain("\n".join(lines)))
        yield _timed_cue(timing, spoken, speaker)


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


def _timed_cue(timing: re.Match[str], text: str, speaker: str | None) -> _Cue | None:
    try:
        start_ms, end_ms = parse_timecode(timing["start"]), parse_timecode(timing["end"])
    except ValueError:
        return None
    return _cue(start_ms, end_ms, text, speaker)


def _voices(body: str) -> list[tuple[str | None, str]]:
    """(speaker, text) for each voice in a WebVTT cue."""
    before, *rest = _VOICE.split(body)
    names = [None, *(_plain(name) for name in rest[::2])]
    texts = [_plain(text) for text in (before, *rest[1::2])]
    return [(name, text) for name, text in zip(names, texts, strict=True) if text]


def _plain(text: str) -> str:
    # Tags first: an escaped `&lt;i&gt;` is text.
    return _one_line(html.unescape(_TAG.sub("", text)))


def _split_speaker(text: str) -> tuple[str | None, str]:
    """(speaker, text) of an SRT cue that may begin with `Name:`, where a name is up to four capitalised words or numbers."""
    match = _SPEAKER_PREFIX.match(text)
    if match is None or not all(word[0].isupper() or word[0].isdigit() for word in match[1].split()):
        return None, text
    return match[1], text[match.end() :]


# Podcasting 2.0 JSON


def _load_json(content: bytes, path: Path) -> dict[str, Any]:
    try:
        document = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path.name} is not valid JSON ({error})", "export it again, as UTF-8") from error
    return document if isinstance(document, dict) else {}


def _named_language(document: dict[str, Any]) -> str | None:
    try:
        return parse_language(str(document["language"]))
    except (KeyError, ValueError):
        return None


def _json_cues(document: dict[str, Any]) -> Iterator[_Cue | None]:
    segments = document.get("segments")
    for segment in segments if isinstance(segments, list) else []:
        yield _json_cue(segment) if isinstance(segment, dict) else None


def _json_cue(segment: dict[str, Any]) -> _Cue | None:
    start_ms, end = _milliseconds(segment.get("startTime")), segment.get("endTime")
    end_ms = None if end is None else _milliseconds(end)
    body = segment.get("body")
    if start_ms is None or (end is not None and end_ms is None) or not isinstance(body, str):
        return None
    return _cue(start_ms, end_ms, _json_text(body), _json_text(str(segment.get("speaker") or "")))


def _milliseconds(seconds: Any) -> int | None:
    """Milliseconds, or None where `seconds` is no number, or no time that an episode can have."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_MS / MS_PER_SECOND:
        return None
    return round(seconds * MS_PER_SECOND)


def _json_text(text: str) -> str:
    # JSON can escape half a surrogate pair, which no other format can hold.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _one_line(unicodedata.normalize("NFC", whole))
