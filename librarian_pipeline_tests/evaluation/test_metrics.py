import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.evaluation.metrics import METRICS, bootstrap_interval, dimension_of, per_query, score_rows, slices

IDS = [f"ep01:t{n:03d}" for n in range(12)]
RANKINGS = st.lists(st.sampled_from(IDS), unique=True, max_size=12)
HITS = st.lists(st.frozensets(st.sampled_from(IDS), min_size=1, max_size=4), min_size=1, max_size=3)
GOLD = st.lists(st.tuples(HITS, RANKINGS), min_size=1, max_size=5)
SAMPLES = st.lists(st.sampled_from([0.0, 0.2, 0.25, 1 / 3, 0.5, 1.0]), min_size=1, max_size=40).map(np.array)
INTERVAL = {"resamples": 500, "confidence": 0.95}


def queries_and_ranking(judged, gold):
    queries = [judged(f"q/{n}", *hits) for n, (hits, _) in enumerate(gold)]
    return queries, {f"q/{n}": ranking for n, (_, ranking) in enumerate(gold)}


@given(GOLD)
def test_recall_is_the_share_of_a_querys_spans_that_are_hit_within_the_first_k(judged, gold):
    queries, rankings = queries_and_ranking(judged, gold)
    found = per_query(queries, rankings)
    for query in queries:
        for k in (1, 3, 5):
            first = set(rankings[query.query_id][:k])
            by_hand = sum(bool(hits & first) for hits in query.hits_by_span) / len(query.hits_by_span)
            assert found[f"R@{k}"][query.query_id] == pytest.approx(by_hand)


@given(GOLD)
def test_mrr_is_one_over_the_rank_of_the_first_passage_that_hits_any_span(judged, gold):
    queries, rankings = queries_and_ranking(judged, gold)
    found = per_query(queries, rankings)
    for query in queries:
        ranks = [rank for rank, name in enumerate(rankings[query.query_id], start=1) if name in query.relevant]
        assert found["MRR"][query.query_id] == pytest.approx(1 / ranks[0] if ranks else 0)


@given(st.frozensets(st.sampled_from(IDS), min_size=1, max_size=4), RANKINGS.filter(bool))
def test_a_query_of_one_span_scores_as_trec_eval_scores_it(judged, hits, ranking):
    found = per_query([judged("q1", hits)], {"q1": ranking})
    measures = {"recip_rank", "success.1,3,5", "ndcg_cut.10"}
    evaluator = pytrec_eval.RelevanceEvaluator({"q1": dict.fromkeys(hits, 1)}, measures)
    trec, cut = (
        evaluator.evaluate({"q1": {name: float(-rank) for rank, name in enumerate(names)}})["q1"]
        for names in (ranking, ranking[:10])
    )
    assert [found[metric]["q1"] for metric in METRICS] == pytest.approx(
        [trec["success_1"], trec["success_3"], trec["success_5"], trec["recip_rank"], cut["recip_rank"], trec["ndcg_cut_10"]]
    )


@pytest.mark.parametrize("ranking", [{}, {"q2": []}, {"other": ["a"]}], ids=["no ranking", "an empty one", "another's"])
def test_a_query_that_finds_nothing_counts_as_0(judged, ranking):
    found = per_query([judged("q1", {"a"}), judged("q2", {"a"})], {"q1": ["a"], **ranking})
    assert {metric: values["q2"] for metric, values in found.items()} == dict.fromkeys(METRICS, 0.0)


def test_a_query_that_finds_nothing_lowers_the_mean(judged):
    rows = score_rows("dense", [judged("q1", {"a"}), judged("q2", {"a"})], {"q1": ["a"]}, **INTERVAL)
    assert [row["value"] for row in rows if row["slice"] == "all"] == [0.5] * len(METRICS)


def test_one_passage_that_hits_two_spans_finds_both_at_once(judged):
    found = per_query([judged("q1", {"a"}, {"a", "b"})], {"q1": ["a"]})
    assert found["R@1"]["q1"] == 1.0


def test_two_passages_of_one_span_find_only_that_span(judged):
    found = per_query([judged("q1", {"a", "b"}, {"c"})], {"q1": ["a", "b", "x"]})
    assert found["R@5"]["q1"] == 0.5


def test_the_ranking_decides_and_not_the_order_of_the_ids(judged):
    found = per_query([judged("q1", {"a"})], {"q1": ["a", "z"]})
    assert found["R@1"]["q1"] == 1.0


def test_a_hit_far_down_still_counts_for_mrr(judged):
    found = per_query([judged("q1", {"a"})], {"q1": [*(f"x{n}" for n in range(99)), "a"]})
    assert found["MRR"]["q1"] == pytest.approx(0.01)


@pytest.mark.parametrize(("before", "mrr", "ndcg"), [(9, 0.1, 1 / np.log2(11)), (10, 0.0, 0.0)])
def test_the_tenth_place_is_the_last_that_counts_for_what_is_cut_at_10(judged, before, mrr, ndcg):
    found = per_query([judged("q1", {"a"})], {"q1": [*(f"x{n}" for n in range(before)), "a"]})
    assert (found["MRR@10"]["q1"], found["nDCG@10"]["q1"]) == pytest.approx((mrr, ndcg))


def test_the_ideal_of_ndcg_has_both_passages_of_a_span(judged):
    found = per_query([judged("q1", {"a", "b"})], {"q1": ["a", "x"]})
    assert found["nDCG@10"]["q1"] == pytest.approx(1 / (1 + 1 / np.log2(3)))


def test_a_passage_that_hits_two_spans_gains_no_more_than_one_that_hits_one(judged):
    found = per_query([judged("q1", {"a", "b"}, {"a"})], {"q1": ["b", "a"]})
    assert found["nDCG@10"]["q1"] == pytest.approx(1.0)


def test_a_query_none_of_whose_spans_resolve_has_no_value(judged):
    found = per_query([judged("q1"), judged("q2", {"a"})], {"q1": ["a"], "q2": ["a"]})
    assert {metric: set(values) for metric, values in found.items()} == {metric: {"q2"} for metric in METRICS}


# Slices


def test_there_is_a_slice_for_all_for_each_language_kind_and_split_and_for_what_of_them_is_in_a_split(judged):
    queries = [judged("q1", {"a"}), judged("q2", {"a"}, language="cs", kind="keyword", split="test")]
    assert slices(queries) == {
        "all": ["q1", "q2"],
        "cs": ["q2"],
        "en": ["q1"],
        "keyword": ["q2"],
        "paraphrase": ["q1"],
        "dev": ["q1"],
        "test": ["q2"],
        "cs/test": ["q2"],
        "en/dev": ["q1"],
        "keyword/test": ["q2"],
        "paraphrase/dev": ["q1"],
    }


def test_each_slice_of_whole_splits_is_known_by_what_it_is_a_slice_by(judged):
    queries = [judged("q1", {"a"}), judged("q2", {"a"}, language="cs", kind="keyword", split="test")]
    found = {name: dimension_of(name) for name in slices(queries) if "/" not in name}
    languages, kinds = dict.fromkeys(("cs", "en"), "language"), dict.fromkeys(("keyword", "paraphrase"), "kind")
    assert found == {"all": None, **languages, **kinds, "dev": "split", "test": "split"}


def test_each_slice_has_the_mean_of_its_own_queries(judged):
    queries = [judged("q1", {"a"}), judged("q2", {"a"}, language="cs"), judged("q3", {"a"}, language="cs")]
    rows = score_rows("dense", queries, {"q1": ["a"], "q2": ["b", "a"], "q3": ["a"]}, **INTERVAL)
    mrr = {row["slice"]: (row["value"], row["n_queries"]) for row in rows if row["metric"] == "MRR"}
    assert (mrr["en"], mrr["cs"]) == ((1.0, 1), (0.75, 2))
    assert mrr["all"] == (pytest.approx(2.5 / 3), 3)


# Intervals


@given(SAMPLES)
def test_equal_samples_have_equal_intervals(sample):
    assert bootstrap_interval(sample, **INTERVAL) == bootstrap_interval(sample.copy(), **INTERVAL)


@given(SAMPLES)
def test_the_interval_holds_the_mean_and_stays_within_the_sample(sample):
    low, high = bootstrap_interval(sample, **INTERVAL)
    fuzz = 1e-12
    assert sample.min() - fuzz <= low <= sample.mean() + fuzz
    assert sample.mean() - fuzz <= high <= sample.max() + fuzz


@pytest.mark.parametrize("sample", [[0.5], [1.0] * 30, [0.0] * 3], ids=["one query", "all found", "none found"])
def test_where_nothing_varies_the_interval_is_a_point(sample):
    assert bootstrap_interval(np.array(sample), **INTERVAL) == (sample[0], sample[0])


def test_more_confidence_is_a_wider_interval():
    sample = np.array([0.0, 1.0] * 20)
    narrow = bootstrap_interval(sample, resamples=2000, confidence=0.6)
    wide = bootstrap_interval(sample, resamples=2000, confidence=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_the_interval_of_a_share_is_close_to_the_normal_one():
    sample = np.array([1.0] * 60 + [0.0] * 40)
    half_width = 1.96 * np.sqrt(0.6 * 0.4 / 100)
    assert bootstrap_interval(sample, resamples=5000, confidence=0.95) == pytest.approx(
        (0.6 - half_width, 0.6 + half_width), abs=0.01
    )


def test_the_interval_of_a_median_is_about_the_median_and_not_the_mean():
    sample = np.array([1.0] * 5 + [2.0] * 90 + [1_000.0] * 5)
    assert bootstrap_interval(sample, resamples=2000, confidence=0.95, statistic=np.median) == (2.0, 2.0)
