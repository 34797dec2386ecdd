"""The figures of several candidates, each query compared with itself under the settings as they are."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from librarian_pipeline.comparison.candidates import Candidate
from librarian_pipeline.comparison.deriving import DerivedCandidate
from librarian_pipeline.evaluation.measure import QueryScores, query_scores, stored_score_table
from librarian_pipeline.evaluation.metrics import HEADLINE
from librarian_pipeline.evaluation.paired import Paired, compare_queries, holm
from librarian_pipeline.evaluation.score_table import ScoreTable
from librarian_pipeline.settings import EvaluationSettings

PRIMARY = "MRR"
"""The metric whose differences the table shows: it sees every rank, where R@k sees one step."""


@dataclass(frozen=True)
class Row:
    """A candidate in one mode. `values`, by metric and query id, and their `means` are those of the compared queries.

    `paired` and `corrected`, the p-values after Holm's correction, are by metric; empty for the settings as they are, and
    `corrected` for a row that is the same.
    """

    candidate: Candidate
    values: Mapping[str, Mapping[str, float]]
    means: Mapping[str, float]
    paired: Mapping[str, Paired]
    corrected: Mapping[str, float]


@dataclass(frozen=True)
class Results:
    """Rows by mode, one a candidate, the settings as they are first; no rows where no query can be compared.

    `left_out` are judged queries whose spans the passages of only some candidates meet; `lost` those that no passage meets.
    `n_tests` is of how many p-values a corrected one is part: one for each row where the figure of any query differs. The
    others have no chance of a small one, and need no correction for it (Tarone, Biometrics 1990).
    """

    tables: Sequence[ScoreTable]
    queries: Sequence[str]
    left_out: Sequence[str]
    lost: Sequence[str]
    rows: Mapping[str, Sequence[Row]]
    n_tests: int


def results_of(derived: Sequence[DerivedCandidate], modes: Sequence[str], settings: EvaluationSettings) -> Results:
    """Compares candidates that are measured with the first of them, in some modes."""
    scores = [query_scores(one.workspace.warehouse) for one in derived]
    queries, left_out, lost = _comparable(scores)
    keys = [(mode, position) for mode in modes for position in range(len(derived) if queries else 0)]
    values = {(mode, position): _of_queries(scores[position].values[mode], queries) for mode, position in keys}
    paired = {key: _paired(values[key[0], 0], values[key], settings) if key[1] else {} for key in keys}
    tested = [key for key in keys if not all(one.ties == one.n for one in paired[key].values())]
    corrected = {metric: holm([paired[key][metric].p for key in tested]) for metric in HEADLINE}
    by_key = {key: {metric: corrected[metric][n] for metric in HEADLINE} for n, key in enumerate(tested)}
    rows: dict[str, list[Row]] = {mode: [] for mode in modes}
    for key in keys:
        means = {metric: float(np.mean(list(by_query.values()))) for metric, by_query in values[key].items()}
        rows[key[0]].append(Row(derived[key[1]].candidate, values[key], means, paired[key], by_key.get(key, {})))
    tables = [stored_score_table(one.workspace.warehouse) for one in derived]
    return Results(tables, queries, left_out, lost, rows, len(tested))


def _comparable(scores: Sequence[QueryScores]) -> tuple[list[str], list[str], list[str]]:
    """Query ids: those that are compared, those that are left out, and those that nothing hits.

    R@k is a share of the spans that some passage hits, so that a query can only be compared where these are the same spans.
    """
    queries, left_out, lost = [], [], []
    for query_id, spans in scores[0].lost.items():
        scorable = [query_id in _any_mode(score) for score in scores]
        if not any(scorable):
            lost.append(query_id)
        elif all(scorable) and all(score.lost[query_id] == spans for score in scores):
            queries.append(query_id)
        else:
            left_out.append(query_id)
    return queries, left_out, lost


def _any_mode(scores: QueryScores) -> Mapping[str, float]:
    return next(iter(scores.values.values()))[PRIMARY]


def _of_queries(values: Mapping[str, Mapping[str, float]], queries: Sequence[str]) -> dict[str, dict[str, float]]:
    return {metric: {query_id: values[metric][query_id] for query_id in queries} for metric in HEADLINE}


def _paired(
    before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]], settings: EvaluationSettings
) -> dict[str, Paired]:
    resamples, confidence = settings.bootstrap_resamples, settings.confidence
    return {
        metric: compare_queries(metric, before[metric], after[metric], resamples=resamples, confidence=confidence)
        for metric in HEADLINE
    }


def as_json(derived: Sequence[DerivedCandidate], results: Results) -> dict[str, Any]:
    """Everything, down to the difference of each query."""
    return {
        "candidates": [
            {
                "name": one.candidate.name,
                "changes": dict(one.candidate.changes),
                "passages": table.n_passages,
                "episodes": table.n_episodes,
                "queries": table.n_queries,
                "dense": table.dense_backend,
                "derived": one.derived,
                "shared": one.n_shared,
                "problems": list(one.problems),
            }
            for one, table in zip(derived, results.tables, strict=True)
        ],
        "queries": {"compared": results.queries, "left_out": results.left_out, "lost": results.lost},
        "modes": {mode: [_row_json(row, rows[0]) for row in rows] for mode, rows in results.rows.items()},
    }


def _row_json(row: Row, as_set: Row) -> dict[str, Any]:
    return {
        "candidate": row.candidate.name,
        "values": row.means,
        "by_query": row.values,
        "differences": {
            metric: {
                **asdict(paired),
                "ties": paired.ties,
                "p_holm": row.corrected.get(metric),
                "by_query": {
                    query_id: value - as_set.values[metric][query_id] for query_id, value in row.values[metric].items()
                },
            }
            for metric, paired in row.paired.items()
        },
    }
