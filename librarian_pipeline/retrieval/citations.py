"""Where a result is in the archive: the episode and the second, or the heading."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from librarian_pipeline.archive.timecodes import format_timecode
from librarian_pipeline.chunking.passages import LONG_SEGMENT_MS, SEGMENT_COLUMNS, Segment, segments_of, split_long
from librarian_pipeline.retrieval.modes import Passage, Searcher
from librarian_pipeline.storage.schemas import TRANSCRIPTS

COLUMNS = pa.schema([TRANSCRIPTS.field(name) for name in SEGMENT_COLUMNS])
TRANSCRIPTS_KEPT = 200
"""At hand as tables: up to 0.3 MB an hour, with the times of words. The others are read again when they are cited."""


class Tables(Protocol):
    """What transcripts are read from: a warehouse, a snapshot, or what is kept of one."""

    def read_all(self, table: str, partitions: Iterable[str], schema: pa.Schema) -> pa.Table: ...


@dataclass(frozen=True)
class Citation:
    """`text` as people read it; `start_ms` on the original audio's timeline, None for passages without a time."""

    text: str
    episode_id: str
    start_ms: int | None


def cite(passage: Passage, start_ms: int | None) -> Citation:
    """`Ep. ep03 @ 08:03`; without a time `Ep. ep03, notes: HEADING`, or `Ep. ep03, transcript` (of another edition)."""
    if start_ms is not None:
        text = f"Ep. {passage.episode_id} @ {format_timecode(start_ms)}"
    else:
        text = f"Ep. {passage.episode_id}, {passage.layer}" + (f": {passage.heading}" if passage.heading else "")
    return Citation(text, passage.episode_id, start_ms)


class Citer:
    """Cites the segment that matches a query best, rather than the start of its passage; of a long one, the part.

    Where the words of a segment have times, the citation is that of the first word that matches.
    """

    def __init__(self, tables: Tables, searcher: Searcher) -> None:
        self._tables = tables
        self._searcher = searcher
        self._transcript = lru_cache(maxsize=TRANSCRIPTS_KEPT)(self._read_transcript)

    def cite(self, query: str, passage: Passage) -> Citation:
        """The citation of a passage as the answer to a query."""
        if passage.start_ms is None or passage.first_segment is None:
            return cite(passage, passage.start_ms)
        return cite(passage, self._best_start(query, passage))

    def _best_start(self, query: str, passage: Passage) -> int:
        """The start of the part with the largest summed idf of the query's terms.

        The passage's own where none has any, or where the segments that it was cut from aren't there any more.
        """
        assert passage.start_ms is not None
        normalizer, index = self._searcher.normalizer, self._searcher.stem_index
        wanted = set(normalizer.terms(query, passage.language))
        best_weight, best_start = 0.0, passage.start_ms
        for part in self._parts(passage):
            found = wanted.intersection(normalizer.terms(part.text, passage.language))
            weight = sum(index.idf(term) for term in sorted(found))
            if weight > best_weight:
                best_weight, best_start = weight, max(self._first_match_ms(part, found, passage.language), passage.start_ms)
        return best_start

    def _first_match_ms(self, part: Segment, found: set[str], language: str) -> int:
        for word, start_ms in part.words:
            if found.intersection(self._searcher.normalizer.terms(word, language)):
                return start_ms
        return part.start_ms

    def _parts(self, passage: Passage) -> Iterator[Segment]:
        """The passage's segments; of those that are cut between words, the pieces that reach into the passage."""
        assert passage.start_ms is not None
        assert passage.end_ms is not None
        assert passage.first_segment is not None
        assert passage.last_segment is not None
        transcript = self._transcript(passage.episode_id)
        idx = transcript.column("segment_idx")
        its_own = pc.and_(pc.greater_equal(idx, passage.first_segment), pc.less_equal(idx, passage.last_segment))
        # An hour has some 700 segments with 9,000 words: only those of the passage become objects.
        for segment in segments_of(transcript.filter(its_own)):
            pieces = split_long(segment, LONG_SEGMENT_MS)
            for piece in pieces:
                if len(pieces) == 1 or (piece.start_ms < passage.end_ms and piece.end_ms > passage.start_ms):
                    yield piece

    def _read_transcript(self, episode_id: str) -> pa.Table:
        return self._tables.read_all("transcripts", [episode_id], COLUMNS)
