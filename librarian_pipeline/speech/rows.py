"""Whisper's segments as rows of `schemas.TRANSCRIPTS`, a sentence each where words have times, with times within the audio.

Whisper's own segments often hold two or three sentences. A citation opens at a segment's start, which would then be
several seconds before the sentence that it is for.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from librarian_pipeline.speech.flags import CLAMPED, NO_WORD_TIMES, REORDERED
from librarian_pipeline.speech.whisper import Window

# Shorter ones stay with what follows: an abbreviation ends with a full stop as well.
MIN_SENTENCE_WORDS = 3
MIN_SENTENCE_S = 1.0
_SENTENCE_END = re.compile(r"[.?!…。？！][\"'”’»)\]]*$")

Row = dict[str, Any]


@dataclass(frozen=True)
class _Sentence:
    start: float
    end: float
    text: str
    words: tuple[Any, ...]


def window_rows(
    windows: Iterable[Window], episode_id: str, language: str, duration_ms: int, window_id: int, decoding_pass: int
) -> list[Row]:
    """The segments of one window, or of those that its second decoding made of it. They get the window's id and flags.

    Segments without text are left out, as are those that start at the end of the audio or after it.
    """
    rows = []
    for window in windows:
        for segment in window.segments:
            for sentence in _sentences(segment):
                if sentence.text and to_ms(sentence.start) < duration_ms:
                    row = _row(segment, sentence, duration_ms)
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


def _sentences(segment: Any) -> list[_Sentence]:
    words: Sequence[Any] = segment.words or ()
    whole = _Sentence(segment.start, segment.end, segment.text.strip(), tuple(words))
    # Where words are missing, so would their text be.
    if "".join(word.word for word in words).strip() != whole.text:
        return [whole]
    parts = list(_split(words))
    if len(parts) < 2:
        return [whole]
    return [_Sentence(part[0].start, part[-1].end, "".join(word.word for word in part).strip(), part) for part in parts]


def _split(words: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    first = 0
    for number, word in enumerate(words, start=1):
        if _SENTENCE_END.search(word.word) and _long_enough(words[first:number]) and _long_enough(words[number:]):
            yield tuple(words[first:number])
            first = number
    yield tuple(words[first:])


def _long_enough(words: Sequence[Any]) -> bool:
    return len(words) >= MIN_SENTENCE_WORDS and words[-1].end - words[0].start >= MIN_SENTENCE_S


def _row(segment: Any, sentence: _Sentence, duration_ms: int) -> Row:
    """Of one sentence, with the scores of its segment."""
    start_ms, end_ms = _within(sentence.start, sentence.end, duration_ms)
    clamped = (start_ms, end_ms) != (to_ms(sentence.start), to_ms(sentence.end))
    return {
        "start_ms": start_ms,
        "end_ms": end_ms,
        "text": sentence.text,
        "speaker": None,
        "source": "whisper",
        "avg_logprob": float(segment.avg_logprob),
        "no_speech_prob": float(segment.no_speech_prob),
        "compression_ratio": float(segment.compression_ratio),
        "words": [_word(word, duration_ms) for word in sentence.words],
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
