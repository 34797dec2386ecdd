import warnings

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from librarian_pipeline.evaluation.metrics import METRICS
from librarian_pipeline.evaluation.score_table import ScoreTable
from librarian_pipeline.evaluation.scoring import score_rankings
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.settings import EvaluationSettings
from librarian_pipeline.storage.schemas import EVAL_CORPUS, EVAL_SCORES, RANKINGS

SETTINGS = EvaluationSettings(bootstrap_resamples=100)


def rankings(found: dict[str, dict[str, list[str]]]) -> pa.Table:
    rows = [
        {"mode": mode, "query_id": query_id, "rank": rank, "chunk_id": name, "score": 1 / rank}
        for mode, by_query in found.items()
        for query_id, names in by_query.items()
        for rank, name in enumerate(names, start=1)
    ]
    return pa.Table.from_pylist(rows, schema=RANKINGS)


def value(scores: pa.Table, mode: str, metric: str) -> tuple[float, int]:
    (row,) = [r for r in scores.to_pylist() if (r["mode"], r["metric"], r["slice"]) == (mode, metric, "all")]
    return row["value"], row["n_queries"]


def test_each_mode_is_scored_by_its_own_ranking(judged):
    stored = rankings({"dense": {"q1": ["a"]}, "hybrid": {"q1": ["b", "a"]}})
    scores = score_rankings(stored, [judged("q1", {"a"})], SETTINGS)
    assert scores.schema == EVAL_SCORES
    assert [value(scores, mode, "MRR")[0] for mode in MODES] == [
        {"dense": 1.0, "hybrid": 0.5}.get(mode, 0.0) for mode in MODES
    ]


def test_a_query_none_of_whose_spans_resolve_is_left_out_and_not_counted_as_0(judged):
    scores = score_rankings(rankings({"dense": {"q1": ["a"]}}), [judged("q1", {"a"}), judged("q2")], SETTINGS)
    assert value(scores, "dense", "R@1") == (1.0, 1)


@pytest.mark.parametrize("lost", [False, True], ids=["no queries", "only lost labels"])
def test_nothing_to_score_is_no_figures_and_no_warning(judged, lost):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = score_rankings(rankings({}), [judged("q1")] if lost else [], SETTINGS)
    assert scores.equals(EVAL_SCORES.empty_table())


def corpus(**counts: int) -> pa.Table:
    named = {"dense_backend": "char-ngram (no weights)", "default_mode": "dense"}
    row = {**dict.fromkeys(EVAL_CORPUS.names, 0), **counts, **named}
    return pa.Table.from_pylist([row], schema=EVAL_CORPUS)


def test_the_table_shows_each_mode_and_metric_over_all_queries_and_what_they_were_measured_on(judged):
    stored = rankings({"bm25_raw": {"q1": ["b", "a"]}, "dense": {"q1": ["a"], "q2": ["x", "y", "a"]}})
    scores = score_rankings(stored, [judged("q1", {"a"}), judged("q2", {"a"}, language="cs")], SETTINGS)
    table = ScoreTable.of(scores, corpus(n_passages=7, n_episodes=2, n_queries=2, n_spans=3, n_lost_spans=1))
    assert table.to_markdown().splitlines() == [
        "7 passages of 2 episodes, 2 queries (1 of 3 judged spans are lost); dense: char-ngram (no weights)",
        "",
        "| Retrieval mode | R@1 | R@3 | R@5 | MRR |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| bm25_raw | 0.00 | 0.50 | 0.50 | 0.25 |",
        "| bm25_stem | 0.00 | 0.00 | 0.00 | 0.00 |",
        "| dense (default) | 0.50 | 1.00 | 1.00 | 0.67 |",
        "| hybrid | 0.00 | 0.00 | 0.00 | 0.00 |",
        "| hybrid_cc | 0.00 | 0.00 | 0.00 | 0.00 |",
    ]


def test_a_mode_that_an_earlier_version_did_not_measure_has_no_row(judged):
    scores = score_rankings(rankings({"dense": {"q1": ["a"]}}), [judged("q1", {"a"})], SETTINGS)
    earlier = scores.filter(pc.field("mode") != "hybrid_cc")
    before_default_modes = corpus().drop_columns(["default_mode"])
    table = ScoreTable.of(earlier, before_default_modes)
    assert [row[0] for row in table.rows] == [mode for mode in MODES if mode != "hybrid_cc"]


def test_a_table_of_nothing_is_its_caption_and_header():
    table = ScoreTable.of(EVAL_SCORES.empty_table(), corpus())
    assert table.rows == []
    assert table.header == ["Retrieval mode", *METRICS]
    assert table.caption.startswith("0 passages of 0 episodes, 0 queries")
