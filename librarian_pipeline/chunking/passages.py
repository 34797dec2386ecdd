"""Cuts an episode into passages: the units that are indexed, found and cited.

A transcript passage is a run of whole segments, about as long as `target_s`, that ends at a sentence end or a pause where
there is one; neighbours share `overlap_segments` segments. None is longer than `max_s`, nor has more than `max_words`. None
goes on past the start of a chapter, nor shares anything across it: `chapter_starts` says where they begin. A notes passage
is a section, or a part of a long one.
"""

import bisect
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from librarian_pipeline.archive.published import Flag, ends_sentence
from librarian_pipeline.settings import ChunkSettings
from librarian_pipeline.storage.schemas import CHUNKS

PAUSE_MS = 2_000
# Segments beyond this are cut between words, because their time says too little about where in them something is said.
LONG_SEGMENT_MS = 30_000
LONG_SEGMENT_WORDS = ChunkSettings().max_words
# A last passage with less new speech than this joins the one before it, if the two fit together.
SHORT_TAIL_MS = 15_000
# Times under a single heading are chapters if they are at least this far from each other.
MIN_LISTED_CHAPTER_MS = 60_000
SEGMENT_COLUMNS = ("segment_idx", "start_ms", "end_ms", "text", "language", "words", "excluded")
"""Of `transcripts`: what a `Segment` is made of."""
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?…])\s+|\n+")


@dataclass(frozen=True)
class Segment:
    """A segment of a transcript, as far as cutting needs it; times in milliseconds."""

    idx: int
    start_ms: int
    end_ms: int
    text: str
    language: str
    words: tuple[tuple[str, int], ...] = ()
    """(word, start_ms) where the transcript knows them"""


def segments_of(transcript: pa.Table) -> list[Segment]:
    """The segments of a table of `transcripts` that are not excluded."""
    return [
        Segment(
            row["segment_idx"],
            row["start_ms"],
            row["end_ms"],
            row["text"],
            row["language"],
            tuple((word["word"], word["start_ms"]) for word in row["words"] or ()),
        )
        for row in transcript.select(SEGMENT_COLUMNS).to_pylist()
        if not row["excluded"]
    ]


def cut_episode(episode_id: str, transcript: pa.Table, notes: pa.Table, settings: ChunkSettings) -> pa.Table:
    """The passages of an episode, notes first, in the order of their ids; columns as in `schemas.CHUNKS`.

    Passages of a transcript that is flagged `wrong_edition` have no times.
    """
    sections = notes.to_pylist()
    rows = [
        *_notes_rows(episode_id, sections, settings),
        *_transcript_rows(episode_id, transcript, sections, settings),
    ]
    return pa.Table.from_pylist(rows, schema=CHUNKS)


def chapter_starts(sections: Sequence[Mapping[str, Any]]) -> list[int]:
    """Where chapters begin, in milliseconds, sorted: at the first time under each heading of the notes.

    The timed items of one heading are points within its chapter, often closer together than passages are long. But where
    only one heading has times, and they are far enough from each other, it is the list of the chapters.
    """
    by_heading = itertools.groupby(sections, key=lambda section: section["heading"])
    times = [[section["start_ms"] for section in group if section["start_ms"] is not None] for _, group in by_heading]
    timed = [found for found in times if found]
    if len(timed) == 1 and _are_chapters(sorted(set(timed[0]))):
        return sorted(set(timed[0]))
    return sorted({found[0] for found in timed})


def _are_chapters(starts: list[int]) -> bool:
    return all(after - before >= MIN_LISTED_CHAPTER_MS for before, after in itertools.pairwise(starts))


def chunk_id(episode_id: str, layer: str, idx: int) -> str:
    """`ep03:t004`: an id that holds no character of an episode id between its parts."""
    return f"{episode_id}:{layer[0]}{idx:03d}"


def indexed_text(heading: str | None, text: str) -> str:
    """What the indexes see of a passage: its heading belongs to it. A section without text stands for its heading."""
    return f"{heading}\n{text}" if heading and text != heading else text


def _transcript_rows(
    episode_id: str, transcript: pa.Table, sections: list[dict[str, Any]], settings: ChunkSettings
) -> Iterator[dict[str, Any]]:
    # The times of another edition lead nowhere on this audio's timeline: such passages have none, and meet no chapter.
    timed = not any(Flag.WRONG_EDITION in (flags or ()) for flags in transcript["flags"].to_pylist())
    chapters = chapter_starts(sections) if timed else []
    for idx, run in enumerate(group_segments(segments_of(transcript), settings, chapters)):
        yield _row(
            episode_id,
            "transcript",
            idx,
            text=" ".join(segment.text for segment in run),
            language=_main_language(run),
            start_ms=run[0].start_ms if timed else None,
            end_ms=max(segment.end_ms for segment in run) if timed else None,
            first_segment=min(segment.idx for segment in run),
            last_segment=max(segment.idx for segment in run),
        )


def _notes_rows(episode_id: str, sections: list[dict[str, Any]], settings: ChunkSettings) -> Iterator[dict[str, Any]]:
    for idx, (section, text) in enumerate(section_parts(sections, settings.notes_max_words)):
        yield _row(
            episode_id,
            "notes",
            idx,
            text=text,
            language=section["language"],
            heading=section["heading"],
            start_ms=section["start_ms"],
        )


def section_parts(sections: Iterable[dict[str, Any]], max_words: int) -> Iterator[tuple[dict[str, Any], str]]:
    """The passages of notes in their order, each as its section and its text."""
    for section in sections:
        for text in split_text(section["text"] or section["heading"] or "", max_words):
            yield section, text


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


def group_segments(
    segments: Sequence[Segment], settings: ChunkSettings, chapters: Sequence[int] = ()
) -> list[list[Segment]]:
    """Runs of consecutive segments, every segment in at least one of them.

    Each is at most `max_s` long, unless a single word is longer, and has at most `max_words` words.

    `chapters` are starts in milliseconds, sorted. No run has segments that begin on both sides of one.
    """
    longest_ms = min(settings.max_s * 1000, LONG_SEGMENT_MS)
    # Speakers may overlap: what is said is put in the order in which it begins.
    split = (piece for segment in segments for piece in split_long(segment, longest_ms, settings.max_words))
    pieces = sorted(split, key=lambda piece: piece.start_ms)
    by_chapter = itertools.groupby(pieces, key=lambda piece: bisect.bisect_right(chapters, piece.start_ms))
    return [run for _, chapter in by_chapter for run in _group_chapter(list(chapter), settings)]


def _group_chapter(pieces: list[Segment], settings: ChunkSettings) -> list[list[Segment]]:
    target_ms = settings.target_s * 1000
    runs: list[list[Segment]] = []
    run: list[Segment] = []
    new_from = 0  # where the segments begin that the run doesn't share with the one before
    for position, piece in enumerate(pieces):
        if len(run) > new_from and not _fit([*run, piece], settings):
            runs.append(run)
            run, new_from = _overlap(run, settings)
        while run and new_from and not _fit([*run, piece], settings):
            run, new_from = run[1:], new_from - 1
        run = [*run, piece]
        following = pieces[position + 1] if position + 1 < len(pieces) else None
        if piece.end_ms - run[0].start_ms >= target_ms and _is_good_end(piece, following):
            runs.append(run)
            run, new_from = _overlap(run, settings)
    if len(run) > new_from:
        _close_last(runs, run, new_from, settings)
    return runs


def _fit(run: Sequence[Segment], settings: ChunkSettings) -> bool:
    """Whether the segments are few and short enough for a passage."""
    duration_ms = max(segment.end_ms for segment in run) - run[0].start_ms
    n_words = sum(len(segment.text.split()) for segment in run)
    return duration_ms <= settings.max_s * 1000 and n_words <= settings.max_words


def _overlap(run: list[Segment], settings: ChunkSettings) -> tuple[list[Segment], int]:
    """The start of the next run, and where its new segments begin. A run is never repeated whole."""
    n = min(settings.overlap_segments, len(run) - 1)
    return run[len(run) - n :], n


def _close_last(runs: list[list[Segment]], run: list[Segment], new_from: int, settings: ChunkSettings) -> None:
    new = run[new_from:]
    short = max(segment.end_ms for segment in new) - new[0].start_ms < SHORT_TAIL_MS
    if runs and short and _fit([*runs[-1], *new], settings):
        runs[-1] = [*runs[-1], *new]
    else:
        runs.append(run)


def _is_good_end(segment: Segment, following: Segment | None) -> bool:
    pause = following is None or following.start_ms - segment.end_ms >= PAUSE_MS
    return pause or ends_sentence(segment.text)


def split_long(segment: Segment, max_ms: float, max_words: int = LONG_SEGMENT_WORDS) -> list[Segment]:
    """A segment longer than `max_ms`, or of more than `max_words`, in pieces of about equal shares of its words.

    Pieces begin when their first word does, where the transcript knows that and no piece gets too long by it; otherwise in
    proportion. Only a single word stays longer than `max_ms`.
    """
    duration = segment.end_ms - segment.start_ms
    tokens = segment.text.split()
    words_that_fit = max_words if duration <= max_ms else min(max_words, max(1, int(len(tokens) * max_ms // duration)))
    if len(tokens) <= max(1, words_that_fit):
        return [segment]
    n = -(-len(tokens) // words_that_fit)
    bounds = [i * len(tokens) // n for i in range(n + 1)]
    proportional = [segment.start_ms + duration * bound // len(tokens) for bound in bounds]
    times = _word_times(segment, tokens, bounds) or proportional
    if max(end - start for start, end in itertools.pairwise(times)) > max_ms:
        times = proportional
    return [
        replace(segment, start_ms=times[i], end_ms=times[i + 1], text=" ".join(tokens[bounds[i] : bounds[i + 1]]), words=())
        for i in range(n)
    ]


def _word_times(segment: Segment, tokens: list[str], bounds: list[int]) -> list[int] | None:
    """When the tokens at `bounds` begin; None where the words are not those of the text, or not in order."""
    words = [("".join(word.split()), start_ms) for word, start_ms in segment.words]
    if "".join(word for word, _ in words) != "".join(tokens):
        return None
    # Words and tokens may be cut differently (` twenty`, `-five`): they meet at the characters they share.
    word_ends = list(itertools.accumulate(len(word) for word, _ in words))
    token_starts = [0, *itertools.accumulate(len(token) for token in tokens)]
    inner = [words[bisect.bisect_right(word_ends, token_starts[bound])][1] for bound in bounds[1:-1]]
    times = [segment.start_ms, *inner, segment.end_ms]
    return times if all(start < end for start, end in itertools.pairwise(times)) else None


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
