"""Runs every gold query through every mode, and scores the rankings."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from librarian_pipeline.evaluation.judging import JudgedQuery
from librarian_pipeline.evaluation.jump_in import jump_in_rows
from librarian_pipeline.evaluation.metrics import Ranking, score_rows
from librarian_pipeline.retrieval.modes import MODES, Hit
from librarian_pipeline.settings import EvaluationSettings
from librarian_pipeline.storage.schemas import EVAL_SCORES, RANKINGS

DEPTH = 100
"""How many results of each query are kept in `rankings`."""


class Searches(Protocol):
    """Whatever can be searched: a `Searcher`, or what stands behind the same signature."""

    def search(self, query: str, mode: str | None = None, k: int = 5) -> list[Hit]: ...


def rank_queries(
    searcher: Searches,
    queries: Sequence[JudgedQuery],
    on_progress: Callable[[int, int], None] | None = None,
    modes: Sequence[str] = MODES,
) -> pa.Table:
    """The results of every query in every mode; columns as in `schemas.RANKINGS`."""
    rows: list[dict[str, Any]] = []
    for done, query in enumerate(queries, start=1):
        for mode in modes:
            for hit in searcher.search(query.query, mode, DEPTH):
                rows.append(
                    {
                        "mode": mode,
                        "query_id": query.query_id,
                        "rank": hit.rank,
                        "chunk_id": hit.passage.chunk_id,
                        "score": hit.score,
                    }
                )
        if on_progress:
            on_progress(done, len(queries))
    rows.sort(key=lambda row: (modes.index(row["mode"]), row["query_id"], row["rank"]))
    return pa.Table.from_pylist(rows, schema=RANKINGS)


def score_rankings(
    rankings: pa.Table,
    queries: Sequence[JudgedQuery],
    jump_ins: pa.Table,
    settings: EvaluationSettings,
    modes: Sequence[str] = MODES,
) -> pa.Table:
    """The figures of every mode; columns as in `schemas.EVAL_SCORES`. Queries none of whose spans resolve are left out."""
    scorable = [query for query in queries if query.hits_by_span]
    resamples, confidence = settings.bootstrap_resamples, settings.confidence
    rows = [
        row
        for mode, ranking in (by_mode(rankings, modes) if scorable else {}).items()
        for row in score_rows(mode, scorable, ranking, resamples=resamples, confidence=confidence)
    ]
    rows += jump_in_rows(jump_ins, scorable, resamples=resamples, confidence=confidence)
    return pa.Table.from_pylist(rows, schema=EVAL_SCORES)


def by_mode(rankings: pa.Table, modes: Sequence[str] = MODES) -> dict[str, Ranking]:
    """The stored results of each mode, as `metrics` takes them; modes that found nothing included."""
    found: dict[str, dict[str, list[str]]] = {mode: {} for mode in modes}
    for row in rankings.to_pylist():  # stored best first
        found[row["mode"]].setdefault(row["query_id"], []).append(row["chunk_id"])
    return dict(found)
