"""Podcasting 2.0 JSON: `segments` with `startTime`, `endTime` and `body`."""

import json
from collections.abc import Iterator
from typing import Any

from librarian_pipeline.archive.plain_text import one_line
from librarian_pipeline.archive.published.cues import Parsed, Rejected, make_cue
from librarian_pipeline.archive.timecodes import MAX_MS, MS_PER_SECOND
from librarian_pipeline.text.languages import parse_language


def load_document(text: str) -> dict[str, Any]:
    """The JSON object in `text`; an empty one where it is something else. Raises `ValueError` where it is no JSON."""
    try:
        document = json.loads(text, strict=False)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return document if isinstance(document, dict) else {}


def named_language(document: dict[str, Any]) -> str | None:
    """The ISO 639-1 code of the language that the document names."""
    try:
        return parse_language(str(document["language"]))
    except (KeyError, ValueError):
        return None


def json_cues(document: dict[str, Any]) -> Iterator[Parsed]:
    """One for each entry of `segments`."""
    segments = document.get("segments")
    for segment in segments if isinstance(segments, list) else []:
        yield _json_cue(segment) if isinstance(segment, dict) else Rejected.NO_SEGMENT


def _json_cue(segment: dict[str, Any]) -> Parsed:
    end, body = segment.get("endTime"), segment.get("body")
    return make_cue(
        _milliseconds(segment.get("startTime")),
        _milliseconds(end),
        one_line(body) if isinstance(body, str) else "",
        one_line(str(segment.get("speaker") or "")),
        has_end=end is not None,
    )


def _milliseconds(seconds: Any) -> int | None:
    """Milliseconds, or None where `seconds` is no number, or no time that an episode can have."""
    if isinstance(seconds, str):
        try:
            seconds = float(seconds)
        except ValueError:
            return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_MS / MS_PER_SECOND:
        return None
    return round(seconds * MS_PER_SECOND)
