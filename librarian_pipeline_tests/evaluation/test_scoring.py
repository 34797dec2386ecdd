import warnings

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from librarian_pipeline.evaluation.metrics import HEADLINE
from librarian_pipeline.evaluation.score_table import ScoreTable, detectable_lines, jump_in_grid, sliced_grid
from librarian_pipeline.evaluation.scoring import score_rankings
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.settings import EvaluationSettings
from librarian_pipeline.storage.schemas import DETECTABLE, EVAL_CORPUS, EVAL_SCORES, JUMP_INS, RANKINGS

SETTINGS = EvaluationSettings(bootstrap_resamples=100)
NO_JUMPS = JUMP_INS.empty_table()


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
    scores = score_rankings(stored, [judged("q1", {"a"})], NO_JUMPS, SETTINGS)
    assert scores.schema == EVAL_SCORES
    assert [value(scores, mode, "MRR")[0] for mode in MODES] == [
        {"dense": 1.0, "hybrid": 0.5}.get(mode, 0.0) for mode in MODES
    ]


def test_a_query_none_of_whose_spans_resolve_is_left_out_and_not_counted_as_0(judged):
    scores = score_rankings(rankings({"dense": {"q1": ["a"]}}), [judged("q1", {"a"}), judged("q2")], NO_JUMPS, SETTINGS)
    assert value(scores, "dense", "R@1") == (1.0, 1)


@pytest.mark.parametrize("lost", [False, True], ids=["no queries", "only lost labels"])
def test_nothing_to_score_is_no_figures_and_no_warning(judged, lost):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = score_rankings(rankings({}), [judged("q1")] if lost else [], NO_JUMPS, SETTINGS)
    assert scores.equals(EVAL_SCORES.empty_table())


def corpus(**counts: int) -> pa.Table:
    named = {"dense_backend": "char-ngram (no weights)", "default_mode": "dense"}
    row = {**dict.fromkeys(EVAL_CORPUS.names, 0), **counts, **named}
    return pa.Table.from_pylist([row], schema=EVAL_CORPUS)


def test_the_table_shows_each_mode_and_metric_over_all_queries_and_what_they_were_measured_on(judged):
    stored = rankings({"bm25_raw": {"q1": ["b", "a"]}, "dense": {"q1": ["a"], "q2": ["x", "y", "a"]}})
    scores = score_rankings(stored, [judged("q1", {"a"}), judged("q2", {"a"}, language="cs")], NO_JUMPS, SETTINGS)
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
    scores = score_rankings(rankings({"dense": {"q1": ["a"]}}), [judged("q1", {"a"})], NO_JUMPS, SETTINGS)
    earlier = scores.filter(pc.field("mode") != "hybrid_cc")
    before_default_modes = corpus().drop_columns(["default_mode"])
    table = ScoreTable.of(earlier, before_default_modes)
    assert [row[0] for row in table.rows] == [mode for mode in MODES if mode != "hybrid_cc"]


def test_a_table_of_nothing_is_its_caption_and_header():
    table = ScoreTable.of(EVAL_SCORES.empty_table(), corpus())
    assert table.rows == []
    assert table.header == ["Retrieval mode", *HEADLINE]
    assert table.caption.startswith("0 passages of 0 episodes, 0 queries")


def test_the_table_of_a_split_is_over_its_queries_and_says_so(judged):
    queries = [judged("q1", {"a"}), judged("q2", {"a"}, split="test"), judged("q3", {"a"}, split="test")]
    scores = score_rankings(rankings({"dense": {"q1": ["a"], "q2": ["a"]}}), queries, NO_JUMPS, SETTINGS)
    table = ScoreTable.of(scores, corpus(n_queries=3), "test")
    assert ", 2 queries of the test split; " in table.caption
    figures = {mode.split()[0]: figures for mode, *figures in table.rows}
    assert figures["dense"] == ["0.50"] * 4


def test_the_sliced_table_has_the_figures_of_each_slice_and_mode(judged):
    queries = [judged("q1", {"a"}), judged("q2", {"a"}, language="cs", split="test"), judged("q3", {"a"}, split="test")]
    scores = score_rankings(rankings({"dense": {"q1": ["a"]}, "hybrid": {"q2": ["a"]}}), queries, NO_JUMPS, SETTINGS)
    header, rows = sliced_grid(scores, "language")
    assert header == ["Language", "Retrieval mode", "n", *HEADLINE]
    assert [row[:2] for row in rows] == [[language, mode] for language in ("cs", "en") for mode in MODES]
    assert ["en", "dense", "2", *["0.50"] * 4] in rows
    assert ["cs", "hybrid", "1", *["1.00"] * 4] in rows
    of_test = {tuple(row[:3]) for row in sliced_grid(scores, "language", "test")[1]}
    assert of_test == {(language, mode, "1") for language in ("cs", "en") for mode in MODES}
    assert {row[0] for row in sliced_grid(scores, "split", "test")[1]} == {"test"}


def jump(mode: str, query_id: str, offset_ms: int | None) -> dict[str, object]:
    return {"mode": mode, "query_id": query_id, "chunk_id": "a", "offset_ms": offset_ms}


def test_the_jump_in_table_shows_the_shares_the_median_and_over_how_many_it_is(judged):
    queries = [judged("q1", {"a"}), judged("q2", {"a"}), judged("q3", {"a"}, split="test")]
    offsets = [jump("dense", "q1", -2_000), jump("dense", "q2", 50_000), jump("dense", "q3", None)]
    jumps = pa.Table.from_pylist(offsets, schema=JUMP_INS)
    scores = score_rankings(rankings({}), queries, jumps, SETTINGS)
    header, rows = jump_in_grid(scores)
    assert header == ["Retrieval mode", "30 s", "60 s", "120 s", "median", "interval", "over"]
    assert rows == [["dense", "0.33", "0.67", "0.67", "26.0 s", "2.0-50.0 s", "2 of 3"]]
    assert jump_in_grid(scores, "split")[1][1] == ["test", "dense", "0.00", "0.00", "0.00", "-", "-", "0 of 1"]
    assert jump_in_grid(scores, split="test")[1] == [["dense", "0.00", "0.00", "0.00", "-", "-", "0 of 1"]]


def test_what_can_be_told_is_said_with_n_and_the_half_width_of_the_interval():
    row = {"mode": "hybrid", "metric": "MRR@10", "slice": "all", "value": 0.5, "ci_low": 0.42, "ci_high": 0.6}
    scores = pa.Table.from_pylist([{**row, "n_queries": 90}], schema=EVAL_SCORES)
    told = {"mode": "hybrid", "metric": "MRR@10", "slice": "all", "like_mode": "dense", "n_queries": 90, "spread": 0.2}
    for effect, said in ((0.052, "0.05 or more"), (None, "none")):
        detectable = pa.Table.from_pylist([{**told, "effect": effect}], schema=DETECTABLE)
        first, how = detectable_lines(detectable, scores)
        assert first == f"hybrid MRR@10 0.50 +/- 0.09 (n = 90); losses it can tell: {said}"
        assert "from hybrid to dense" in how
        assert detectable_lines(detectable, scores, "test") == []
