"""From judged spans to judged passages (qrels), so that any way of cutting can be scored with the same labels."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from librarian_pipeline.archive.timecodes import format_timecode
from librarian_pipeline.evaluation.gold import same_heading
from librarian_pipeline.retrieval.modes import Passage


@dataclass(frozen=True)
class JudgedQuery:
    """A query, and for each of its spans the passages that hit it. `lost_spans` says which spans no passage hits.

    `starts` has the episode, and the start in milliseconds, of each span of a transcript that is hit.
    """

    query_id: str
    query: str
    language: str
    kind: str
    split: str
    hits_by_span: tuple[frozenset[str], ...]
    lost_spans: tuple[str, ...]
    starts: tuple[tuple[str, int], ...] = ()

    @property
    def relevant(self) -> frozenset[str]:
        """The passages that hit any span."""
        return frozenset().union(*self.hits_by_span)


def judge(gold: pa.Table, passages: Mapping[str, Passage]) -> list[JudgedQuery]:
    """The judged queries, in the order of the gold set; unanswerable ones left out."""
    by_episode: dict[tuple[str, str], list[Passage]] = {}
    for passage in passages.values():
        by_episode.setdefault((passage.episode_id, passage.layer), []).append(passage)
    spans: dict[str, list[dict[str, Any]]] = {}
    for row in gold.to_pylist():
        if row["episode_id"] is not None:
            spans.setdefault(row["query_id"], []).append(row)
    judged = []
    for query_id, rows in spans.items():
        found = [_hits(row, by_episode.get((row["episode_id"], row["layer"]), ())) for row in rows]
        judged.append(
            JudgedQuery(
                query_id=query_id,
                query=rows[0]["query"],
                language=rows[0]["language"],
                kind=rows[0]["kind"],
                split=rows[0]["split"],
                hits_by_span=tuple(hits for hits in found if hits),
                lost_spans=tuple(describe_span(row) for row, hits in zip(rows, found, strict=True) if not hits),
                starts=tuple(
                    (row["episode_id"], row["start_ms"])
                    for row, hits in zip(rows, found, strict=True)
                    if hits and row["layer"] == "transcript"
                ),
            )
        )
    return judged


def _hits(span: Mapping[str, Any], passages: Iterable[Passage]) -> frozenset[str]:
    return frozenset(passage.chunk_id for passage in passages if is_hit(span, passage))


def is_hit(span: Mapping[str, Any], passage: Passage) -> bool:
    """Whether a passage of the span's episode and layer hits it: by heading, or by an overlap of half the shorter one."""
    if span["heading"] is not None:
        return same_heading(span["heading"], passage.heading)
    if passage.start_ms is None:
        return False
    if passage.end_ms is None:  # a timed note is a point on the timeline
        return bool(span["start_ms"] <= passage.start_ms < span["end_ms"])
    overlap = min(span["end_ms"], passage.end_ms) - max(span["start_ms"], passage.start_ms)
    shorter = min(span["end_ms"] - span["start_ms"], passage.end_ms - passage.start_ms)
    return bool(overlap > 0 and 2 * overlap >= shorter)


def describe_span(span: Mapping[str, Any]) -> str:
    """`ep03 transcript 08:03-08:41`, `ep11 notes "Slow electrons"`."""
    where = f"{span['episode_id']} {span['layer']}"
    if span["heading"] is not None:
        return f'{where} "{span["heading"]}"'
    return f"{where} {format_timecode(span['start_ms'])}-{format_timecode(span['end_ms'])}"
