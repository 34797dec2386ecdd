"""R@k and MRR of a ranking, by ir_measures, with bootstrap confidence intervals.

A query may have several judged spans, and a passage may hit two of them, so R@k is computed over spans: `Success@k` of each
span's own passages, averaged over the query's spans. MRR is `RR` over the passages that hit any span.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from librarian_pipeline.evaluation.judging import JudgedQuery

RECALL_CUTS = (1, 3, 5)
METRICS = (*(f"R@{k}" for k in RECALL_CUTS), "MRR")
BOOTSTRAP_SEED = 20_240_229

Ranking = Mapping[str, Sequence[str]]
"""Chunk ids by query id, best first."""


def per_query(queries: Sequence[JudgedQuery], ranking: Ranking) -> dict[str, dict[str, float]]:
    """Each metric of each query: metric -> query id -> value. A query without a ranking counts as 0."""
    import ir_measures

    runs = {query.query_id: _run(ranking.get(query.query_id, ())) for query in queries}
    span_qrels = {
        f"{query.query_id}/{i}": dict.fromkeys(sorted(hits), 1)
        for query in queries
        for i, hits in enumerate(query.hits_by_span)
    }
    span_runs = {span: runs[span.rpartition("/")[0]] for span in span_qrels}
    query_qrels = {query.query_id: dict.fromkeys(sorted(query.relevant), 1) for query in queries}
    cuts = {ir_measures.Success @ k: f"R@{k}" for k in RECALL_CUTS}
    by_span = ir_measures.iter_calc(list(cuts), span_qrels, span_runs)
    by_query = ir_measures.iter_calc([ir_measures.RR], query_qrels, runs)
    collected: dict[str, dict[str, list[float]]] = {metric: {} for metric in METRICS}
    for result in by_span:
        query_id = result.query_id.rpartition("/")[0]
        collected[cuts[result.measure]].setdefault(query_id, []).append(result.value)
    for result in by_query:
        collected["MRR"].setdefault(result.query_id, []).append(result.value)
    return {
        metric: {query_id: float(np.mean(values)) for query_id, values in by_query_id.items()}
        for metric, by_query_id in collected.items()
    }


def _run(chunk_ids: Sequence[str]) -> dict[str, float]:
    """A run with strictly falling scores: evaluators order ties by document id, which is not our order."""
    return {chunk_id: 1 / rank for rank, chunk_id in enumerate(chunk_ids, start=1)}


def slices(queries: Sequence[JudgedQuery]) -> dict[str, list[str]]:
    """Query ids by slice: `all`, each language, kind and split, named as they are."""
    found: dict[str, list[str]] = {"all": [query.query_id for query in queries]}
    for attribute in ("language", "kind", "split"):
        for name in sorted({getattr(query, attribute) for query in queries}):
            found[name] = [query.query_id for query in queries if getattr(query, attribute) == name]
    return found


def score_rows(
    mode: str, queries: Sequence[JudgedQuery], ranking: Ranking, *, resamples: int, confidence: float
) -> list[dict[str, Any]]:
    """The rows of `eval_scores` for one mode: the mean of each metric over each slice, with its confidence interval."""
    values = per_query(queries, ranking)
    rows = []
    for metric in METRICS:
        for name, query_ids in slices(queries).items():
            sample = np.array([values[metric][query_id] for query_id in query_ids])
            low, high = bootstrap_interval(sample, resamples=resamples, confidence=confidence)
            rows.append(
                {
                    "mode": mode,
                    "metric": metric,
                    "slice": name,
                    "value": float(sample.mean()),
                    "ci_low": low,
                    "ci_high": high,
                    "n_queries": len(sample),
                }
            )
    return rows


def bootstrap_interval(sample: npt.NDArray[np.float64], *, resamples: int, confidence: float) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean (Efron 1979), with a fixed seed: equal samples, equal intervals."""
    generator = np.random.default_rng(BOOTSTRAP_SEED)
    means = generator.choice(sample, size=(resamples, len(sample))).mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)
