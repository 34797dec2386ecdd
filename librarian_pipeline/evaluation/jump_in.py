"""How far from the judged start people land who jump in at what a mode cites first.

Of each query that has judged spans of a transcript, and each mode, the citation of the passage at rank 1 counts: its time
against the start of the nearest judged span of the same episode. A passage of another episode, one that is cited without a
time, and no passage at all are never within any limit; the median is over the others, and is of the distance in either
direction.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from librarian_pipeline.evaluation.judging import JudgedQuery
from librarian_pipeline.evaluation.metrics import score_row, slices
from librarian_pipeline.retrieval.citations import Citer
from librarian_pipeline.retrieval.modes import MODES, Passage
from librarian_pipeline.storage.schemas import JUMP_INS

LIMITS_S = (30, 60, 120)
WITHIN = tuple(f"jump-in@{limit}s" for limit in LIMITS_S)
MEDIAN = "jump-in median ms"
JUMP_METRICS = (*WITHIN, MEDIAN)


def jump_ins(
    rankings: pa.Table,
    queries: Sequence[JudgedQuery],
    passages: Mapping[str, Passage],
    citer: Citer,
    modes: Sequence[str] = MODES,
) -> pa.Table:
    """What each mode cites first for each query with judged spans of a transcript; columns as in `schemas.JUMP_INS`.

    Without results, chunk_id is None. `judged_start_ms` is the start that the offset is from; it and the offset, which is
    above 0 where the citation is late, are None where there is none: in another episode, or without a time.
    """
    first = {
        (row["mode"], row["query_id"]): row["chunk_id"]
        for row in rankings.select(["mode", "query_id", "rank", "chunk_id"]).to_pylist()
        if row["rank"] == 1
    }
    cited: dict[tuple[str, str], int | None] = {}  # modes often agree
    rows = []
    for mode in modes:
        for query in queries:
            if not query.starts:
                continue
            chunk_id = first.get((mode, query.query_id))
            if chunk_id is not None and (query.query_id, chunk_id) not in cited:
                cited[query.query_id, chunk_id] = citer.cite(query.query, passages[chunk_id]).start_ms
            rows.append({"mode": mode, "query_id": query.query_id, **_jump(query, chunk_id, passages, cited)})
    return pa.Table.from_pylist(rows, schema=JUMP_INS)


def _jump(
    query: JudgedQuery,
    chunk_id: str | None,
    passages: Mapping[str, Passage],
    cited: Mapping[tuple[str, str], int | None],
) -> dict[str, Any]:
    if chunk_id is None:
        return {}
    cited_ms = cited[query.query_id, chunk_id]
    found: dict[str, Any] = {"chunk_id": chunk_id, "cited_ms": cited_ms}
    starts = [start for episode, start in query.starts if episode == passages[chunk_id].episode_id]
    if cited_ms is None or not starts:
        return found
    nearest = min(starts, key=lambda start: (abs(cited_ms - start), start))
    return {**found, "judged_start_ms": nearest, "offset_ms": cited_ms - nearest}


def jump_in_rows(
    table: pa.Table, queries: Sequence[JudgedQuery], *, resamples: int, confidence: float
) -> list[dict[str, Any]]:
    """The rows of `eval_scores`: of each mode and slice the share of queries within each limit, and the median distance in
    milliseconds over the `n_queries` that have one. Slices without any have no row."""
    row_of = partial(score_row, resamples=resamples, confidence=confidence)
    offsets: dict[str, dict[str, float]] = {}
    for row in table.to_pylist():
        distance = np.inf if row["offset_ms"] is None else abs(row["offset_ms"])
        offsets.setdefault(row["mode"], {})[row["query_id"]] = distance
    found = []
    for mode, distances in offsets.items():
        for name, query_ids in slices(queries).items():
            sample = np.array([distances[query_id] for query_id in query_ids if query_id in distances])
            if not len(sample):
                continue
            for metric, limit in zip(WITHIN, LIMITS_S, strict=True):
                found.append(row_of(mode, metric, name, (sample <= 1000 * limit).astype(float)))
            known = sample[np.isfinite(sample)]
            if len(known):
                found.append(row_of(mode, MEDIAN, name, known, statistic=np.median))
    return found
