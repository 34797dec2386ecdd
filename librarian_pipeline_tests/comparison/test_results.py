import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from librarian_pipeline.comparison import results as results_module
from librarian_pipeline.comparison.candidates import candidates_of
from librarian_pipeline.comparison.results import Results, as_json, results_of
from librarian_pipeline.evaluation.measure import QueryScores
from librarian_pipeline.evaluation.metrics import HEADLINE
from librarian_pipeline.evaluation.paired import sign_flip_test
from librarian_pipeline.evaluation.score_table import ScoreTable
from librarian_pipeline.settings import EvaluationSettings, Settings

SETTINGS = EvaluationSettings(bootstrap_resamples=200)
TABLE = ScoreTable(1, 1, 1, 1, 0, "char-ngram", {})


@dataclass(frozen=True)
class Scored:
    """A candidate with figures of its own choosing, in two modes."""

    candidate: Any
    workspace: Any
    derived: dict[str, int]
    n_shared: int = 0
    problems: tuple[str, ...] = ()


class FakeWorkspace:
    def __init__(self, scores: QueryScores) -> None:
        self.warehouse = scores


Score = Callable[..., tuple[list[Any], Results]]


@pytest.fixture
def score(monkeypatch: pytest.MonkeyPatch) -> Score:
    """Compares candidates by the reciprocal rank of each query in mode `dense`; None for one that no passage answers.

    `bm25_raw` has the same figures for all. `lost` are the lost spans of each candidate.
    """
    monkeypatch.setattr(results_module, "query_scores", lambda warehouse: warehouse)
    monkeypatch.setattr(results_module, "stored_score_table", lambda warehouse: TABLE)

    def compare(*figures: dict[str, float | None], lost: tuple[dict[str, tuple[str, ...]], ...] = ()) -> Any:
        named = candidates_of(Settings(), [f"fusion.c={n}" for n in range(1, len(figures))])
        scored = []
        for position, by_query in enumerate(figures):
            found = {query_id: value for query_id, value in by_query.items() if value is not None}
            spans = dict.fromkeys(by_query, ()) | (lost[position] if lost else {})
            same = dict.fromkeys(found, 0.5)
            values = {"bm25_raw": dict.fromkeys(HEADLINE, same), "dense": dict.fromkeys(HEADLINE, found)}
            scored.append(Scored(named[position], FakeWorkspace(QueryScores(values, spans)), {}))
        return scored, results_of(scored, ["bm25_raw", "dense"], SETTINGS)  # type: ignore[arg-type]

    return compare


def test_each_candidate_is_compared_with_the_settings_as_they_are(score: Score) -> None:
    _, results = score({"a": 1.0, "b": 0.5}, {"a": 1.0, "b": 1.0}, {"a": 0.5, "b": 0.25})
    as_set, better, worse = results.rows["dense"]
    assert as_set.paired == {}
    assert [row.means["MRR"] for row in (as_set, better, worse)] == [0.75, 1.0, 0.375]
    assert (better.paired["MRR"].difference, better.paired["MRR"].wins, better.paired["MRR"].losses) == (0.25, 1, 0)
    assert (worse.paired["MRR"].difference, worse.paired["MRR"].wins, worse.paired["MRR"].losses) == (-0.375, 0, 2)


def test_p_values_are_corrected_for_the_rows_that_differ_and_no_others(score: Score) -> None:
    queries = [f"q{n}" for n in range(8)]
    as_set = dict.fromkeys(queries, 0.5)
    better, mixed = dict.fromkeys(queries, 1.0), {**as_set, "q0": 1.0}
    _, results = score(as_set, better, mixed)
    raw = [row.paired["MRR"].p for row in results.rows["dense"][1:]]
    assert raw == [sign_flip_test(pa.array([0.5] * 8).to_numpy()), 1.0]
    assert results.n_tests == 2
    assert [row.corrected["MRR"] for row in results.rows["dense"][1:]] == [raw[0] * 2, 1.0]
    assert [row.corrected for row in results.rows["bm25_raw"]] == [{}, {}, {}]


@pytest.mark.parametrize(
    ("figures", "lost"),
    [
        (({"a": 1.0, "b": 0.5}, {"a": 1.0, "b": None}), ({}, {"b": ("ep01 00:01-00:02",)})),
        (({"a": 1.0, "b": 0.5}, {"a": 1.0, "b": 1.0}), ({}, {"b": ("ep01 00:01-00:02",)})),
    ],
    ids=["none of its spans", "not all of its spans"],
)
def test_a_query_that_not_all_candidates_can_answer_alike_is_named_and_left_out(
    score: Score, figures: Any, lost: Any
) -> None:
    _, results = score(*figures, lost=lost)
    assert (results.queries, results.left_out, results.lost) == (["a"], ["b"], [])
    assert {row.paired["MRR"].n for row in results.rows["dense"] if row.paired} == {1}
    assert all(row.means["MRR"] == 1.0 for row in results.rows["dense"])


def test_a_query_whose_span_is_lost_to_all_alike_is_compared_by_the_spans_that_are_left(score: Score) -> None:
    spans = {"b": ("ep01 00:01-00:02",)}
    _, results = score({"a": 1.0, "b": 0.5}, {"a": 1.0, "b": 1.0}, lost=(spans, spans))
    assert results.queries == ["a", "b"]


def test_where_no_query_is_left_there_are_no_rows(score: Score) -> None:
    lost = {"a": ("ep01 00:01-00:02",)}
    scored, results = score({"a": None}, {"a": None}, lost=(lost, lost))
    assert (results.queries, results.lost) == ([], ["a"])
    assert results.rows == {"bm25_raw": [], "dense": []}
    assert as_json(scored, results)["modes"] == {"bm25_raw": [], "dense": []}


def test_json_has_every_query_and_its_difference(score: Score) -> None:
    scored, results = score({"a": 1.0, "b": 0.5}, {"a": 0.5, "b": 0.5})
    found = json.loads(json.dumps(as_json(scored, results)))
    assert [one["changes"] for one in found["candidates"]] == [{}, {"fusion.c": 1}]
    as_set, candidate = found["modes"]["dense"]
    assert as_set["differences"] == {}
    mrr = candidate["differences"]["MRR"]
    assert mrr["by_query"] == {"a": -0.5, "b": 0.0}
    assert (mrr["n"], mrr["wins"], mrr["losses"], mrr["ties"]) == (2, 0, 1, 1)
    assert candidate["by_query"]["MRR"] == {"a": 0.5, "b": 0.5}
