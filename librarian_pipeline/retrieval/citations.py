"""Where a result is in the archive: the episode and the second, or the heading."""

from dataclasses import dataclass

from librarian_pipeline.archive.timecodes import format_timecode
from librarian_pipeline.retrieval.modes import Passage, Searcher
from librarian_pipeline.storage.warehouse import Warehouse


@dataclass(frozen=True)
class Citation:
    """`text` as people read it; `start_ms` on the original audio's timeline, None for notes without a time."""

    text: str
    episode_id: str
    start_ms: int | None


def cite(passage: Passage, start_ms: int | None) -> Citation:
    """`Ep. ep03 @ 08:03`; for notes without a time `Ep. ep03, notes: HEADING`."""
    if start_ms is not None:
        text = f"Ep. {passage.episode_id} @ {format_timecode(start_ms)}"
    else:
        text = f"Ep. {passage.episode_id}, notes" + (f": {passage.heading}" if passage.heading else "")
    return Citation(text, passage.episode_id, start_ms)


class Citer:
    """Cites the segment that matches a query best, rather than the start of its passage."""

    def __init__(self, warehouse: Warehouse, searcher: Searcher) -> None:
        self._warehouse = warehouse
        self._searcher = searcher
        self._segments: dict[str, list[tuple[int, int, str]]] = {}

    def cite(self, query: str, passage: Passage) -> Citation:
        """The citation of a passage as the answer to a query."""
        if passage.start_ms is None or passage.first_segment is None:
            return cite(passage, passage.start_ms)
        return cite(passage, self._best_segment_start(query, passage))

    def _best_segment_start(self, query: str, passage: Passage) -> int:
        """The start of the segment with the largest summed idf of the query's terms; the first one where none has any."""
        assert passage.start_ms is not None
        assert passage.first_segment is not None
        assert passage.last_segment is not None
        normalizer, index = self._searcher.normalizer, self._searcher.stem_index
        wanted = set(normalizer.terms(query, passage.language))
        first, last = passage.first_segment, passage.last_segment
        best_weight, best_start = 0.0, passage.start_ms
        for segment_idx, start_ms, text in self._segments_of(passage.episode_id):
            if first <= segment_idx <= last:
                found = wanted.intersection(normalizer.terms(text, passage.language))
                weight = sum(index.idf(term) for term in sorted(found))
                if weight > best_weight:
                    best_weight, best_start = weight, max(start_ms, passage.start_ms)
        return best_start

    def _segments_of(self, episode_id: str) -> list[tuple[int, int, str]]:
        if episode_id not in self._segments:
            table = self._warehouse.read("transcripts", episode_id)
            rows = table.select(["segment_idx", "start_ms", "text", "excluded"]).to_pylist()
            self._segments[episode_id] = [
                (row["segment_idx"], row["start_ms"], row["text"]) for row in rows if not row["excluded"]
            ]
        return self._segments[episode_id]
