"""Whisper's segments as rows of `schemas.TRANSCRIPTS`, with times within the audio."""

from collections.abc import Iterable
from typing import Any

from librarian_pipeline.speech.flags import CLAMPED, NO_WORD_TIMES, REORDERED
from librarian_pipeline.speech.whisper import Window

Row = dict[str, Any]


def window_rows(
    windows: Iterable[Window], episode_id: str, language: str, duration_ms: int, window_id: int, decoding_pass: int
) -> list[Row]:
    """The segments of one window, or of those that its second decoding made of it. They get the window's id and flags.

    Segments without text are left out, as are those that start at the end of the audio or after it.
    """
    rows = []
    for window in windows:
        for segment in window.segments:
            if segment.text.strip() and to_ms(segment.start) < duration_ms:
                row = _row(segment, duration_ms)
                origin = {"episode_id": episode_id, "language": language, "window_id": window_id}
                flags = row["flags"] + ([] if window.word_times else [NO_WORD_TIMES])
                rows.append({**row, **origin, "decoding_pass": decoding_pass, "flags": flags})
    return rows


def in_order(rows: Iterable[Row]) -> list[Row]:
    """The rows sorted by their starts and numbered, with a flag on those that came after one that starts later."""
    latest_start_ms = 0
    found = []
    for row in rows:
        late = row["start_ms"] < latest_start_ms
        latest_start_ms = max(latest_start_ms, row["start_ms"])
        found.append({**row, "flags": [*row["flags"], REORDERED]} if late else row)
    found.sort(key=lambda row: (row["start_ms"], row["end_ms"]))
    return [{**row, "segment_idx": idx} for idx, row in enumerate(found)]


def to_ms(seconds: float) -> int:
    """Seconds to whole milliseconds."""
    return round(seconds * 1_000)


def _row(segment: Any, duration_ms: int) -> Row:
    start_ms, end_ms = _within(segment.start, segment.end, duration_ms)
    clamped = (start_ms, end_ms) != (to_ms(segment.start), to_ms(segment.end))
    return {
        "start_ms": start_ms,
        "end_ms": end_ms,
        "text": segment.text.strip(),
        "speaker": None,
        "source": "whisper",
        "avg_logprob": float(segment.avg_logprob),
        "no_speech_prob": float(segment.no_speech_prob),
        "compression_ratio": float(segment.compression_ratio),
        "words": [_word(word, duration_ms) for word in segment.words or []],
        "flags": [CLAMPED] if clamped else [],
        "excluded": False,
    }


def _word(word: Any, duration_ms: int) -> dict[str, Any]:
    start_ms, end_ms = _within(word.start, word.end, duration_ms)
    text = word.word.strip()
    return {"word": text, "start_ms": start_ms, "end_ms": end_ms, "probability": float(word.probability)}


def _within(start_s: float, end_s: float, duration_ms: int) -> tuple[int, int]:
    """Start and end in milliseconds, with 0 <= start <= end <= duration."""
    start_ms = min(max(to_ms(start_s), 0), duration_ms)
    return start_ms, min(max(to_ms(end_s), start_ms), duration_ms)
