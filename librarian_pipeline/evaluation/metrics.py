"""What a ranking is worth for a query, and the mean over queries with its bootstrap confidence interval.

A query may have several judged spans, a span may be hit by several passages (they overlap), and a passage may hit several
spans.

- `R@k` is the share of the query's spans that are hit within the first k: subtopic recall (Zhai, Cohen and Lafferty 2003).
  A span counts once, however many of the first k passages hit it.
- `MRR` and `MRR@10` are 1 / rank of the first passage that hits any span; 0 where none does, or none within the first 10.
- `nDCG@10` is that of trec_eval (`ndcg_cut.10`) with binary gains: every passage that hits any span is a relevant document
  of gain 1, however many spans it hits, and so a span hit by two passages is two relevant documents, and the ideal ranking
  has both first. The discount is 1 / log2(rank + 1).

Spans that no passage hits are left out (`judging.JudgedQuery.lost_spans`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from librarian_pipeline.evaluation.gold import Kind, Split
from librarian_pipeline.evaluation.judging import JudgedQuery

RECALL_CUTS = (1, 3, 5)
DEEP_CUT = 10
HEADLINE = (*(f"R@{k}" for k in RECALL_CUTS), "MRR")
"""The columns of the score table."""
METRICS = (*HEADLINE, f"MRR@{DEEP_CUT}", f"nDCG@{DEEP_CUT}")
PRIMARY = f"MRR@{DEEP_CUT}"
"""The one figure by which a change is judged; chosen beforehand, so that nobody can pick the kindest of many."""
BOOTSTRAP_SEED = 20_240_229

Ranking = Mapping[str, Sequence[str]]
"""Chunk ids by query id, best first."""
Numbers = npt.NDArray[np.float64]
Statistic = Callable[..., Any]
"""Takes an array, and an axis; `np.mean`, `np.median`."""
Dimension = Literal["language", "kind", "split"]
"""What queries are sliced by."""
EVERYTHING = "all"


def per_query(queries: Sequence[JudgedQuery], ranking: Ranking) -> dict[str, dict[str, float]]:
    """Each metric of each query: metric -> query id -> value. A query without a ranking counts as 0.

    A query none of whose spans resolve can't be scored, and has no value.
    """
    scorable = [query for query in queries if query.hits_by_span]
    values = np.array([_values(query, ranking.get(query.query_id, ())) for query in scorable]).reshape(-1, len(METRICS))
    ids = [query.query_id for query in scorable]
    return {metric: dict(zip(ids, column, strict=True)) for metric, column in zip(METRICS, values.T.tolist(), strict=True)}


def _values(query: JudgedQuery, chunk_ids: Sequence[str]) -> list[float]:
    """The values of one query, in the order of `METRICS`."""
    relevant = query.relevant
    rank_of = {chunk_id: rank for rank, chunk_id in enumerate(chunk_ids, start=1) if chunk_id in relevant}
    first_of_span = [min((rank_of[hit] for hit in hits if hit in rank_of), default=np.inf) for hits in query.hits_by_span]
    first = min(first_of_span, default=np.inf)
    recalls = [float(np.mean([rank <= k for rank in first_of_span])) for k in RECALL_CUTS]
    gain = _discounted(rank for rank in rank_of.values() if rank <= DEEP_CUT)
    ideal = _discounted(range(1, min(len(relevant), DEEP_CUT) + 1))
    return [*recalls, 1 / first, 1 / first if first <= DEEP_CUT else 0.0, gain / ideal]


def _discounted(ranks: Iterable[int]) -> float:
    return float(sum(1 / np.log2(rank + 1) for rank in sorted(ranks)))


def slices(queries: Sequence[JudgedQuery]) -> dict[str, list[str]]:
    """Query ids by slice: `all`; each language, kind and split, named as they are; each language and kind within a split, as
    `cs/test`. None is empty."""
    found: dict[str, list[str]] = {EVERYTHING: [query.query_id for query in queries]}
    for dimension in get_args(Dimension):
        for name in sorted({getattr(query, dimension) for query in queries}):
            found[name] = [query.query_id for query in queries if getattr(query, dimension) == name]
    for dimension in ("language", "kind"):
        for name, split in sorted({(getattr(query, dimension), query.split) for query in queries}):
            found[f"{name}/{split}"] = [
                query.query_id for query in queries if (getattr(query, dimension), query.split) == (name, split)
            ]
    return found


def slice_name(name: str, split: str | None) -> str:
    """The slice `name`, or what of it is in one split."""
    if split is None or name == split:
        return name
    return split if name == EVERYTHING else f"{name}/{split}"


def dimension_of(name: str) -> Dimension | None:
    """What a slice of whole splits is a slice by; None for `all`."""
    if name == EVERYTHING:
        return None
    if name in get_args(Split):
        return "split"
    return "kind" if name in get_args(Kind) else "language"


def score_rows(
    mode: str, queries: Sequence[JudgedQuery], ranking: Ranking, *, resamples: int, confidence: float
) -> list[dict[str, Any]]:
    """The rows of `eval_scores` for one mode: the mean of each metric over each slice, with its confidence interval."""
    values = per_query(queries, ranking)
    return [
        score_row(
            mode,
            metric,
            name,
            np.array([values[metric][query_id] for query_id in query_ids]),
            resamples=resamples,
            confidence=confidence,
        )
        for name, query_ids in slices(queries).items()
        for metric in METRICS
    ]


def score_row(
    mode: str,
    metric: str,
    slice_: str,
    sample: Numbers,
    *,
    resamples: int,
    confidence: float,
    statistic: Statistic = np.mean,
) -> dict[str, Any]:
    """One row of `eval_scores`: a statistic of the queries' values, with its confidence interval."""
    low, high = bootstrap_interval(sample, resamples=resamples, confidence=confidence, statistic=statistic)
    return {
        "mode": mode,
        "metric": metric,
        "slice": slice_,
        "value": float(statistic(sample)),
        "ci_low": low,
        "ci_high": high,
        "n_queries": len(sample),
    }


def bootstrap_interval(
    sample: Numbers, *, resamples: int, confidence: float, statistic: Statistic = np.mean
) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean, or of another statistic (Efron 1979).

    The seed is fixed: equal samples, equal intervals.
    """
    found = statistic(sample[_draws(len(sample), resamples)], axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    return float(low), float(high)


@lru_cache(maxsize=1)  # all metrics of a slice, one after the other, are resampled alike
def _draws(n: int, resamples: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(BOOTSTRAP_SEED).integers(n, size=(resamples, n))
