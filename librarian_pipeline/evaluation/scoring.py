"""Runs every gold query through every mode, and scores the rankings."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from librarian_pipeline.evaluation.judging import JudgedQuery
from librarian_pipeline.evaluation.metrics import score_rows
from librarian_pipeline.retrieval.modes import MODES, Searcher
from librarian_pipeline.settings import EvaluationSettings
from librarian_pipeline.storage.schemas import EVAL_SCORES, RANKINGS

DEPTH = 100
"""How many results of each query are kept in `rankings`."""


def rank_queries(
    searcher: Searcher, queries: Sequence[JudgedQuery], on_progress: Callable[[int, int], None] | None = None
) -> pa.Table:
    """The results of every query in every mode; columns as in `schemas.RANKINGS`."""
    rows: list[dict[str, Any]] = []
    for done, query in enumerate(queries, start=1):
        for mode in MODES:
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
    rows.sort(key=lambda row: (MODES.index(row["mode"]), row["query_id"], row["rank"]))
    return pa.Table.from_pylist(rows, schema=RANKINGS)


def score_rankings(rankings: pa.Table, queries: Sequence[JudgedQuery], settings: EvaluationSettings) -> pa.Table:
    """The figures of every mode; columns as in `schemas.EVAL_SCORES`. Queries none of whose spans resolve are left out."""
    scorable = [query for query in queries if query.hits_by_span]
    found = by_mode(rankings)
    rows = [
        row
        for mode in (MODES if scorable else ())
        for row in score_rows(
            mode,
            scorable,
            found[mode],
            resamples=settings.bootstrap_resamples,
            confidence=settings.confidence,
        )
    ]
    return pa.Table.from_pylist(rows, schema=EVAL_SCORES)


def by_mode(rankings: pa.Table) -> dict[str, dict[str, list[str]]]:
    """The ranking of each mode: chunk ids by query id, best first."""
    found: dict[str, dict[str, list[str]]] = {mode: {} for mode in MODES}
    for row in rankings.to_pylist():  # stored best first
        found[row["mode"]].setdefault(row["query_id"], []).append(row["chunk_id"])
    return found
