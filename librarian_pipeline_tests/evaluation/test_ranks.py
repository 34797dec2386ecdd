import ir_measures
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.evaluation.metrics import per_query
from librarian_pipeline.evaluation.ranks import RANK_METRICS, measurement_of, value
from librarian_pipeline.storage.schemas import GOLD_SET

PASSAGES = [f"ep01:t{number:03d}" for number in range(30)]
SPANS = st.lists(st.sets(st.sampled_from(PASSAGES), min_size=1, max_size=3), min_size=1, max_size=3)
QUERIES = st.lists(st.tuples(SPANS, st.lists(st.sampled_from(PASSAGES), unique=True)), min_size=1, max_size=5)


def gold_row(query_id, number=0, critical=False):
    span = {"episode_id": "ep01", "layer": "transcript", "start_ms": 20_000 * number, "end_ms": 20_000 * number + 20_000}
    about = {"query": f"What of {query_id}?", "language": "en", "kind": "paraphrase", "split": "dev", "critical": critical}
    return {"query_id": query_id, **about, **span, "heading": None}


def measured(judged, asked):
    """Of queries with the passages that hit each span, and with what one mode returned."""
    queries = [judged(f"q{number}", *spans) for number, (spans, _) in enumerate(asked)]
    rows = [gold_row(f"q{number}", span) for number, (spans, _) in enumerate(asked) for span in range(len(spans))]
    results = {f"q{number}": [(chunk_id, 1.0) for chunk_id in found] for number, (_, found) in enumerate(asked)}
    gold = pa.Table.from_pylist(rows, schema=GOLD_SET)
    return queries, measurement_of("one", "dense", ["dense"], {"dense": results}, queries, gold, {})


@given(QUERIES)
def test_recall_from_ranks_is_that_of_the_score_table(judged, asked):
    queries, measurement = measured(judged, asked)
    expected = per_query(queries, {f"q{number}": found for number, (_, found) in enumerate(asked)})
    for metric in set(RANK_METRICS) & set(expected):
        assert measurement.values("dense", metric, measurement.measured) == pytest.approx(expected[metric])


@given(QUERIES)
def test_mrr_from_ranks_is_that_of_ir_measures(judged, asked):
    queries, measurement = measured(judged, asked)
    qrels = {query.query_id: dict.fromkeys(query.relevant, 1) for query in queries}
    runs = {f"q{number}": {id: 1 / n for n, id in enumerate(found, start=1)} for number, (_, found) in enumerate(asked)}
    expected = {found.query_id: found.value for found in ir_measures.iter_calc([ir_measures.RR @ 10], qrels, runs)}
    assert measurement.values("dense", "MRR@10", measurement.measured) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metric", "ranks", "expected"),
    [
        ("MRR@10", (10,), 0.1),
        ("MRR@10", (11,), 0.0),
        ("MRR@10", (4, 2, None), 0.5),
        ("R@3", (4, 3, None), 1 / 3),
        ("R@1", (None,), 0.0),
    ],
)
def test_metrics_as_worked_by_hand(metric, ranks, expected):
    assert value(metric, ranks) == pytest.approx(expected)


def test_a_query_none_of_whose_spans_resolves_counts_nowhere(judged):
    from dataclasses import replace

    lost = replace(judged("q1"), lost_spans=("ep01 transcript 00:00-00:20",))
    gold = pa.Table.from_pylist([gold_row("q0"), gold_row("q1")], schema=GOLD_SET)
    results = {"dense": {"q0": [("ep01:t000", 1.0)]}}
    found = measurement_of("one", "dense", ["dense"], results, [judged("q0", {"ep01:t000"}), lost], gold, {})
    assert found.measured == ["q0"]
    assert found.figures() == {"dense": dict.fromkeys(RANK_METRICS, 1.0)}


def test_a_critical_query_is_marked_and_what_stands_first_is_named(judged):
    gold = pa.Table.from_pylist([gold_row("q0", critical=True), gold_row("q1")], schema=GOLD_SET)
    queries = [judged("q0", {"ep01:t003"}), judged("q1", {"ep01:t003"})]
    found = measurement_of("one", "dense", ["dense"], {"dense": {"q0": [("ep09:t001", 2.0)]}}, queries, gold, {})
    assert [query.critical for query in found.queries.values()] == [True, False]
    assert found.queries["q0"].places["dense"].first == "ep09:t001"
    assert found.queries["q1"].places["dense"].first is None
