"""Where each mode put what was asked for: the form in which two measurements are compared, query by query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from librarian_pipeline.evaluation.judging import JudgedQuery, describe_span
from librarian_pipeline.retrieval.citations import cite
from librarian_pipeline.retrieval.modes import Passage

RANK_METRICS = ("MRR@10", "R@1", "R@3", "R@5")
"""What follows from the ranks alone."""
RANK_CUT = 10

Ranks = tuple[int | None, ...]
"""Of each judged span that any passage hits, in the order of the gold set: the rank (from 1) of the best passage that does;
None where none is among the results that are kept."""


@dataclass(frozen=True)
class Place:
    """What a mode made of a query. `first` is the passage that stands first, `citation` where it is; None without one."""

    ranks: Ranks
    first: str | None
    citation: str | None

    @property
    def best(self) -> int | None:
        return min((rank for rank in self.ranks if rank is not None), default=None)


@dataclass(frozen=True)
class QueryRanks:
    """A judged query, and its place in each mode. `lost` are those of its spans that no passage hits."""

    query_id: str
    query: str
    critical: bool
    spans: tuple[str, ...]
    lost: tuple[str, ...]
    places: Mapping[str, Place]

    @property
    def is_measured(self) -> bool:
        """Whether there is anything to be found: otherwise it says nothing of a mode."""
        return len(self.lost) < len(self.spans)

    def asks_the_same(self, other: "QueryRanks") -> bool:
        """Whether the two can be compared: the same words, judged the same, with the same spans to be found."""
        return (self.query, self.spans, self.lost) == (other.query, other.spans, other.lost)


@dataclass(frozen=True)
class Measurement:
    """All judged queries by id. `fingerprint` is that of everything the ranks depend on, `mode` the default one then."""

    fingerprint: str
    mode: str
    queries: Mapping[str, QueryRanks]

    @property
    def measured(self) -> list[str]:
        return [query_id for query_id, query in self.queries.items() if query.is_measured]

    @property
    def modes(self) -> list[str]:
        return list(dict.fromkeys(mode for query in self.queries.values() for mode in query.places))

    def values(self, mode: str, metric: str, query_ids: Sequence[str]) -> dict[str, float]:
        return {query_id: value(metric, self.queries[query_id].places[mode].ranks) for query_id in query_ids}

    def figures(self) -> dict[str, dict[str, float]]:
        """The mean of each metric over the queries that are measured, by mode and metric; none where no query is."""
        measured = self.measured
        return {
            mode: {metric: float(np.mean(list(self.values(mode, metric, measured).values()))) for metric in RANK_METRICS}
            for mode in (self.modes if measured else ())
        }


def value(metric: str, ranks: Ranks) -> float:
    """`R@k`: the share of spans that are hit within the first k. `MRR@10`: 1 / rank of the first hit of any, 0 beyond 10."""
    if metric == f"MRR@{RANK_CUT}":
        return max((1 / rank for rank in ranks if rank is not None and rank <= RANK_CUT), default=0.0)
    cut = int(metric.removeprefix("R@"))
    return sum(rank is not None and rank <= cut for rank in ranks) / len(ranks) if ranks else 0.0


Results = Mapping[str, Mapping[str, Sequence[tuple[str, float]]]]
"""Chunk ids with their scores, best first, by mode and query id."""


def results_of(rankings: pa.Table) -> dict[str, dict[str, list[tuple[str, float]]]]:
    """From the columns of `schemas.RANKINGS`."""
    found: dict[str, dict[str, list[tuple[str, float]]]] = {}
    columns = (rankings.column(name).to_pylist() for name in ("mode", "query_id", "chunk_id", "score"))
    for mode, query_id, chunk_id, score in zip(*columns, strict=True):  # stored best first
        found.setdefault(mode, {}).setdefault(query_id, []).append((chunk_id, score))
    return found


def measurement_of(
    fingerprint: str,
    mode: str,
    modes: Sequence[str],
    results: Results,
    queries: Sequence[JudgedQuery],
    gold: pa.Table,
    passages: Mapping[str, Passage],
) -> Measurement:
    """`gold` has the columns of `schemas.GOLD_SET`; passages that are gone since are cited by their ids alone."""
    spans: dict[str, list[str]] = {}
    critical: set[str] = set()
    for row in gold.to_pylist():
        if row["episode_id"] is not None:
            spans.setdefault(row["query_id"], []).append(describe_span(row))
        if row["critical"]:
            critical.add(row["query_id"])
    return Measurement(
        fingerprint,
        mode,
        {
            query.query_id: QueryRanks(
                query.query_id,
                query.query,
                query.query_id in critical,
                tuple(spans[query.query_id]),
                query.lost_spans,
                {name: _place(query, results.get(name, {}).get(query.query_id, ()), passages) for name in modes},
            )
            for query in queries
        },
    )


def _place(query: JudgedQuery, results: Sequence[tuple[str, float]], passages: Mapping[str, Passage]) -> Place:
    rank_of = {chunk_id: rank for rank, (chunk_id, _) in enumerate(results, start=1)}
    ranks = tuple(min((rank_of[hit] for hit in hits if hit in rank_of), default=None) for hits in query.hits_by_span)
    first = results[0][0] if results else None
    passage = passages.get(first) if first is not None else None
    return Place(ranks, first, cite(passage, passage.start_ms).text if passage else None)
