"""Cuts an episode into passages: the units that are indexed, found and cited.

A transcript passage is a run of whole segments, about as long as `target_s`, that ends at a sentence end or a pause where
there is one; neighbours share `overlap_segments` segments. A notes passage is a section, or a part of a long one.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from librarian_pipeline.settings import ChunkSettings
from librarian_pipeline.storage.schemas import CHUNKS

PAUSE_MS = 2_000
# A last passage with less new speech than this joins the one before it, if the two fit together.
SHORT_TAIL_MS = 15_000
_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*$")
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?…])\s+|\n+")


@dataclass(frozen=True)
class Segment:
    """A segment of a transcript, as far as cutting needs it; times in milliseconds."""

    idx: int
    start_ms: int
    end_ms: int
    text: str
    language: str


def cut_episode(episode_id: str, transcript: pa.Table, notes: pa.Table, settings: ChunkSettings) -> pa.Table:
    """The passages of an episode, notes first, in the order of their ids; columns as in `schemas.CHUNKS`."""
    rows = [*_notes_rows(episode_id, notes.to_pylist(), settings), *_transcript_rows(episode_id, transcript, settings)]
    return pa.Table.from_pylist(rows, schema=CHUNKS)


def chunk_id(episode_id: str, layer: str, idx: int) -> str:
    """`ep03:t004`: an id that holds no character of an episode id between its parts."""
    return f"{episode_id}:{layer[0]}{idx:03d}"


def indexed_text(heading: str | None, text: str) -> str:
    """What the indexes see of a passage: its heading belongs to it. A section without text stands for its heading."""
    return f"{heading}\n{text}" if heading and text != heading else text


def _transcript_rows(episode_id: str, transcript: pa.Table, settings: ChunkSettings) -> Iterator[dict[str, Any]]:
    columns = ["segment_idx", "start_ms", "end_ms", "text", "language", "excluded"]
    segments = [
        Segment(row["segment_idx"], row["start_ms"], row["end_ms"], row["text"], row["language"])
        for row in transcript.select(columns).to_pylist()
        if not row["excluded"]
    ]
    for idx, run in enumerate(group_segments(segments, settings)):
        yield _row(
            episode_id,
            "transcript",
            idx,
            text=" ".join(segment.text for segment in run),
            language=_main_language(run),
            start_ms=run[0].start_ms,
            end_ms=max(segment.end_ms for segment in run),
            first_segment=min(segment.idx for segment in run),
            last_segment=max(segment.idx for segment in run),
        )


def _notes_rows(episode_id: str, sections: list[dict[str, Any]], settings: ChunkSettings) -> Iterator[dict[str, Any]]:
    idx = 0
    for section in sections:
        for text in split_text(section["text"] or section["heading"] or "", settings.notes_max_words):
            yield _row(
                episode_id,
                "notes",
                idx,
                text=text,
                language=section["language"],
                heading=section["heading"],
                start_ms=section["start_ms"],
            )
            idx += 1


def _row(episode_id: str, layer: str, idx: int, *, text: str, heading: str | None = None, **columns: Any) -> dict[str, Any]:
    return {
        "chunk_id": chunk_id(episode_id, layer, idx),
        "episode_id": episode_id,
        "layer": layer,
        "chunk_idx": idx,
        "heading": heading,
        "text": text,
        "n_words": len(text.split()),
        "text_sha256": hashlib.sha256(indexed_text(heading, text).encode()).hexdigest(),
        **columns,
    }


def group_segments(segments: Sequence[Segment], settings: ChunkSettings) -> list[list[Segment]]:
    """Runs of consecutive segments, each at most `max_s` long, every segment in at least one of them."""
    target_ms, max_ms = settings.target_s * 1000, settings.max_s * 1000
    # Speakers may overlap: what is said is put in the order in which it begins.
    pieces = sorted((p for segment in segments for p in _split_long(segment, max_ms)), key=lambda piece: piece.start_ms)
    runs: list[list[Segment]] = []
    run: list[Segment] = []
    new_from = 0  # where the segments begin that the run doesn't share with the one before
    for position, piece in enumerate(pieces):
        if len(run) > new_from and piece.end_ms - run[0].start_ms > max_ms:
            runs.append(run)
            run, new_from = _overlap(run, settings)
        while run and new_from and piece.end_ms - run[0].start_ms > max_ms:
            run, new_from = run[1:], new_from - 1
        run = [*run, piece]
        following = pieces[position + 1] if position + 1 < len(pieces) else None
        if piece.end_ms - run[0].start_ms >= target_ms and _is_good_end(piece, following):
            runs.append(run)
            run, new_from = _overlap(run, settings)
    if len(run) > new_from:
        _close_last(runs, run, new_from, max_ms)
    return runs


def _overlap(run: list[Segment], settings: ChunkSettings) -> tuple[list[Segment], int]:
    """The start of the next run, and where its new segments begin. A run is never repeated whole."""
    n = min(settings.overlap_segments, len(run) - 1)
    return run[len(run) - n :], n


def _close_last(runs: list[list[Segment]], run: list[Segment], new_from: int, max_ms: float) -> None:
    new = run[new_from:]
    end_ms = max(segment.end_ms for segment in new)
    short = end_ms - new[0].start_ms < SHORT_TAIL_MS
    if runs and short and end_ms - runs[-1][0].start_ms <= max_ms:
        runs[-1] = [*runs[-1], *new]
    else:
        runs.append(run)


def _is_good_end(segment: Segment, following: Segment | None) -> bool:
    pause = following is None or following.start_ms - segment.end_ms >= PAUSE_MS
    return pause or bool(_SENTENCE_END.search(segment.text))


def _split_long(segment: Segment, max_ms: float) -> list[Segment]:
    """A segment longer than a passage may be, in equal shares of its words, with times in proportion."""
    duration = segment.end_ms - segment.start_ms
    tokens = segment.text.split()
    if duration <= max_ms or len(tokens) < 2:
        return [segment]
    words_that_fit = max(1, int(len(tokens) * max_ms // duration))
    n = -(-len(tokens) // words_that_fit)
    bounds = [i * len(tokens) // n for i in range(n + 1)]
    times = [segment.start_ms + duration * bound // len(tokens) for bound in bounds]
    return [
        replace(segment, start_ms=times[i], end_ms=times[i + 1], text=" ".join(tokens[bounds[i] : bounds[i + 1]]))
        for i in range(n)
    ]


def _main_language(run: Sequence[Segment]) -> str:
    counts: Counter[str] = Counter()
    for segment in run:
        counts[segment.language] += len(segment.text)
    return max(sorted(counts), key=counts.__getitem__)


def split_text(text: str, max_words: int) -> list[str]:
    """`text` in parts of at most `max_words` words, cut between sentences where they are short enough."""
    parts: list[list[str]] = []
    for sentence in _BETWEEN_SENTENCES.split(text.strip()):
        tokens = sentence.split()
        for start in range(0, len(tokens), max_words):
            piece = tokens[start : start + max_words]
            if parts and len(parts[-1]) + len(piece) <= max_words:
                parts[-1].extend(piece)
            else:
                parts.append(piece)
    return [" ".join(part) for part in parts]
