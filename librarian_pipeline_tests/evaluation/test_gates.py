"""Each gate on made-up ranks: what it catches, what it lets pass, and what it says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.checks.gates import GATES
from librarian_pipeline.evaluation.ranks import Measurement, Place
from librarian_pipeline_tests.evaluation.measurements import KEPT, failed, judge, measurement, some_ranks

N_SIMULATED = 500
RANK = st.one_of(st.none(), st.integers(1, KEPT))
RANKS = st.lists(RANK, min_size=1, max_size=40)
AGAINST_THE_BASELINE = {"reproducibility", "primary_metric", "other_metrics", "backstop", "last_release"}


def lost_and_won(result):
    return [(change.change, change.query_id, change.old_rank, change.new_rank) for change in result.details]


# nothing changed


@given(RANKS, RANKS, st.sampled_from(["one", "another"]))
def test_a_run_like_the_one_before_fails_no_gate_that_compares(hybrid, dense, fingerprint):
    n = min(len(hybrid), len(dense))
    before = measurement({"hybrid": hybrid[:n], "dense": dense[:n]})
    results = judge(replace(before, fingerprint=fingerprint), before, release=before, earlier=before)
    assert not failed(results) & (AGAINST_THE_BASELINE | {"critical_queries"})
    assert all(results[gate].passed for gate in AGAINST_THE_BASELINE)


@given(RANKS)
def test_what_critical_queries_came_to_when_accepted_never_fails_again(ranks):
    before = measurement({"hybrid": ranks}, critical=True)
    assert judge(before, before)["critical_queries"].passed


@given(st.lists(st.tuples(RANK, RANK), min_size=1))
def test_what_is_lost_one_way_is_won_the_other_and_no_gate_fails_both_ways(pairs):
    before, after = zip(*pairs, strict=True)
    one, other = measurement({"hybrid": before}, fingerprint="1"), measurement({"hybrid": after}, fingerprint="2")
    there, back = judge(other, one), judge(one, other)
    for gate in ("primary_metric", "backstop"):
        assert not {gate} <= failed(there) & failed(back)
    if not there["primary_metric"].passed:
        changes = lost_and_won(there["primary_metric"])
        assert {change for change, *_ in changes} >= {"lost"}


def test_there_is_a_result_for_every_gate_in_their_order():
    assert list(judge(measurement({"hybrid": [1, 2]}), None)) == list(GATES)


# chance, and what is more than chance


def simulated(random, n, *, p_change=0.2):
    """A measurement, and another one in which some queries changed places, for better as likely as for worse."""
    one, other = some_ranks(random, n), some_ranks(random, n)
    differs = random.random(n) < p_change
    swapped = random.random(n) < 0.5
    before = [b if d and s else a for a, b, d, s in zip(one, other, differs, swapped, strict=True)]
    after = [b if d and not s else a for a, b, d, s in zip(one, other, differs, swapped, strict=True)]
    return before, after


def failures(simulations, gates, settings=None):
    caught = 0
    for before, after in simulations:
        results = judge(measurement({"hybrid": after}, fingerprint="2"), measurement({"hybrid": before}), settings=settings)
        caught += bool(failed(results) & gates)
    return caught / len(simulations)


@pytest.mark.parametrize("metric", ["MRR@10", "R@5"])
def test_noise_alone_fails_the_primary_gate_about_as_often_as_the_settings_say(metric):
    random = np.random.default_rng(55)
    rate = failures([simulated(random, 90) for _ in range(N_SIMULATED)], {"primary_metric"}, {"metric": metric})
    print(f"noise alone, {N_SIMULATED} times, 90 queries, {metric}: the primary gate fails {rate:.1%}")
    assert rate <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / N_SIMULATED)
    assert rate >= (0.02 if metric == "MRR@10" else 0.001)  # the sign test is exact, and keeps well below


def test_noise_alone_fails_the_other_metrics_together_no_oftener():
    random = np.random.default_rng(56)
    caught = 0
    for _ in range(N_SIMULATED):
        sides = {mode: simulated(random, 90) for mode in ("bm25_raw", "bm25_stem", "dense", "hybrid")}
        before = measurement({mode: ranks for mode, (ranks, _) in sides.items()})
        after = measurement({mode: ranks for mode, (_, ranks) in sides.items()}, fingerprint="2")
        caught += "other_metrics" in failed(judge(after, before))
    print(f"noise alone, {N_SIMULATED} times, 90 queries: the gate of the other metrics fails {caught / N_SIMULATED:.1%}")
    assert caught / N_SIMULATED <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / N_SIMULATED)


def test_a_loss_of_eight_points_is_caught_in_four_of_five_simulations():
    """122 queries, 8 % of which fall from the first place to none, while a fifth of all change for no reason."""
    random, n, simulations = np.random.default_rng(57), 122, []
    for _ in range(N_SIMULATED):
        before, after = simulated(random, n, p_change=0.2)
        first = random.permutation(np.flatnonzero([rank == 1 for rank in after]))[: round(0.08 * n)]
        simulations.append((before, [None if number in first else rank for number, rank in enumerate(after)]))
    rate = failures(simulations, {"primary_metric", "backstop"})
    print(f"a loss of 8 points, {N_SIMULATED} times, {n} queries: caught {rate:.1%}")
    assert rate >= 0.8


@pytest.mark.parametrize(
    ("lost", "won", "fails"), [(5, 0, True), (4, 0, False), (6, 1, False), (7, 1, True), (10, 4, False)]
)
def test_the_sign_test_fails_where_the_plan_says(lost, won, fails):
    before = measurement({"hybrid": [1] * lost + [None] * won + [1] * 100})
    after = measurement({"hybrid": [None] * lost + [1] * won + [1] * 100}, fingerprint="2")
    assert ("primary_metric" in failed(judge(after, before, settings={"metric": "R@1"}))) == fails


# each gate


def test_a_failure_lists_the_queries_lost_and_won_with_their_ranks_and_what_stands_first():
    before = measurement({"hybrid": [1, 1, 1, 1, 1, 1, 4]})
    result = judge(measurement({"hybrid": [2, 7, None, 2, 2, 2, 2]}, fingerprint="2"), before)["primary_metric"]
    assert not result.passed
    assert lost_and_won(result)[:2] == [("lost", "q002", "1", "-"), ("lost", "q001", "1", "7")]
    assert lost_and_won(result)[-1] == ("won", "q006", "4", "2")
    assert result.details[0].now_first == "Ep. ep02 @ 00:10 (ep02:t007)"
    assert result.details[0].query == "What of q002?"
    assert "1 won, 6 lost of 7" in result.message


def test_the_default_mode_then_is_compared_with_the_default_mode_now():
    before = measurement({"hybrid": [2] * 10, "dense": [1] * 10}, mode="dense")
    after = measurement({"hybrid": [2] * 10, "dense": [1] * 10}, mode="hybrid", fingerprint="2")
    result = judge(after, before)["primary_metric"]
    assert not result.passed
    assert "dense -> hybrid MRR@10 1.000 -> 0.500" in result.message


def test_a_mode_that_falls_beside_the_default_one_fails_the_other_metrics():
    before = measurement({"hybrid": [1] * 20})
    after = measurement({"hybrid": [1] * 20, "bm25_stem": [1] * 8 + [30] * 12}, fingerprint="2")
    results = judge(after, before)
    assert "other_metrics" in failed(results)
    assert "primary_metric" not in failed(results)
    assert "bm25_stem MRR@10 1.000 -> 0.400" in results["other_metrics"].message
    assert {change.mode for change in results["other_metrics"].details} == {"bm25_stem"}


def test_the_backstop_catches_a_large_fall_that_few_queries_cant_prove():
    before = measurement({"hybrid": [1, 1, 1, 1]})
    results = judge(measurement({"hybrid": [1, 1, 1, None]}, fingerprint="2"), before)
    assert failed(results) == {"backstop"}
    assert "a fall of 25.0 points, where 8 points may be" in results["backstop"].message
    assert "backstop" not in failed(
        judge(measurement({"hybrid": [1, 1, 1, None]}, fingerprint="2"), before, settings={"max_drop": 0.25})
    )


@pytest.mark.parametrize(("rank", "lost"), [(1, False), (5, False), (6, True), (None, True)])
def test_a_critical_query_that_is_lost_fails(rank, lost):
    before = measurement({"hybrid": [5, *[1] * 50]}, critical=True)
    result = judge(measurement({"hybrid": [rank, *[1] * 50]}, critical=True, fingerprint="2"), before)["critical_queries"]
    assert (not result.passed) == lost
    assert bool(result.details) == lost


def test_a_critical_query_that_nobody_accepted_has_to_be_found():
    before = measurement({"hybrid": [1]})
    after = measurement({"hybrid": [1, 9]}, critical=True, fingerprint="2")
    assert lost_and_won(judge(after, before)["critical_queries"]) == [("missed", "q001", None, "9")]


@pytest.mark.parametrize(("hybrid", "expected"), [([1] * 10, (True, "error")), ([2] * 10, (False, "error"))])
def test_fusion_below_the_weaker_of_its_branches_fails(hybrid, expected):
    now = measurement({"hybrid": hybrid, "bm25_stem": [1] * 10, "dense": [1] * 10})
    result = judge(now, None)["fusion"]
    assert (result.passed, result.severity) == expected
    assert ("hybrid MRR@10 0.500, bm25_stem 1.000, dense 1.000" in result.message) == (not result.passed)


def test_fusion_below_by_less_than_one_query_is_only_told():
    now = measurement({"hybrid": [2] + [1] * 9, "bm25_stem": [1] * 10, "dense": [1] * 10})
    result = judge(now, None)["fusion"]
    assert (result.passed, result.severity) == (False, "warn")


def test_plain_fusion_below_its_best_branch_is_a_warning_that_names_the_figures():
    now = measurement({"hybrid": [2] * 10, "dense": [1] * 10, "bm25_stem": [9] * 10, "bm25_raw": [9] * 10})
    result = judge(now, None)["best_branch"]
    assert (result.passed, result.severity) == (False, "warn")
    assert "hybrid against dense: MRR@10 1.000 -> 0.500" in result.message
    assert lost_and_won(result)[0] == ("lost", "q000", "1", "2")


def test_another_default_mode_below_the_best_branch_fails():
    now = measurement({"hybrid": [1] * 10, "dense": [1] * 10, "bm25_stem": [4] * 10}, mode="bm25_stem")
    result = judge(now, None)["best_branch"]
    assert (result.passed, result.severity) == (False, "error")


def test_small_losses_one_after_the_other_add_up_against_the_release():
    ranks = [1] * 100
    release = measurement({"hybrid": ranks})
    accepted = measurement({"hybrid": [None] * 4 + ranks[4:]}, fingerprint="2")
    now = measurement({"hybrid": [None] * 8 + ranks[8:]}, fingerprint="3")
    results = judge(now, accepted, release=release)
    assert failed(results) & {"primary_metric", "backstop", "last_release"} == {"last_release"}
    assert "the release of 2025-01-01" in results["last_release"].message


# reproducibility


def moved(before: Measurement, rank: int) -> Measurement:
    places = {**before.queries["q000"].places, "dense": Place((rank,), "ep02:t007", "Ep. ep02 @ 00:10")}
    return replace(before, queries={**before.queries, "q000": replace(before.queries["q000"], places=places)})


@pytest.mark.parametrize("against", ["baseline", "release", "earlier"])
def test_the_same_passages_and_settings_have_to_give_the_same_ranks(against):
    before = measurement({"hybrid": [3, 1]})
    now, other = moved(before, 4), replace(before, fingerprint="another")
    kept = {"release": before} if against == "release" else {"earlier": before} if against == "earlier" else {}
    result = judge(now, before if against == "baseline" else other, **kept)["reproducibility"]
    assert lost_and_won(result) == [("moved", "q000", "3", "4")]
    assert result.details[0].mode == "dense"


@pytest.mark.parametrize(("difference", "passes"), [(5e-6, True), (2e-5, False)])
def test_results_that_all_but_tie_may_change_places(difference, passes):
    before = measurement({"hybrid": [3, 1]})
    scores = [0.9, 0.8, 0.7, 0.7 - difference]
    results = {"dense": {"q000": [(f"ep02:t{7 + n:03d}", score) for n, score in enumerate(scores)]}}
    assert judge(moved(before, 4), before, results=results)["reproducibility"].passed == passes


def test_another_passage_at_the_top_is_seen_though_no_judged_one_moved():
    before = measurement({"hybrid": [3, 1]})
    query = before.queries["q000"]
    places = {**query.places, "dense": replace(query.places["dense"], first="ep03:t001")}
    now = replace(before, queries={**before.queries, "q000": replace(query, places=places)})
    assert "reproducibility" in failed(judge(now, before))


# what can't be compared


def test_without_a_baseline_the_gates_pass_and_say_how_to_accept_one():
    results = judge(measurement({"hybrid": [1, None]}), None)
    assert failed(results) == set()
    for gate in ("reproducibility", "primary_metric", "other_metrics", "backstop"):
        assert (results[gate].passed, results[gate].severity) == (True, "warn")
        assert "eval --accept" in results[gate].message


def test_queries_that_are_new_gone_or_asked_in_other_words_are_left_out_and_told():
    before = measurement({"hybrid": [1] * 30})
    queries = dict(measurement({"hybrid": [None] * 12 + [1] * 20}, fingerprint="2").queries)
    for number in range(10):
        queries[f"q{number:03d}"] = replace(queries[f"q{number:03d}"], query="Something else?")
    del queries["q010"], queries["q011"]
    results = judge(Measurement("2", "hybrid", queries), before)
    assert failed(results) == set()
    left_out = "left out: 2 new, 2 gone, 10 with other words, spans or lost spans"
    assert left_out in results["primary_metric"].message
    assert "of 18" in results["primary_metric"].message


def test_a_baseline_none_of_whose_queries_can_be_compared_lets_nothing_pass():
    before = measurement({"hybrid": [1] * 5})
    after = measurement({"hybrid": [1] * 5}, query="Something else?", fingerprint="2")
    results = judge(after, before)
    assert failed(results) == {"primary_metric", "other_metrics", "backstop"}
    assert "5 with other words" in results["primary_metric"].message


def test_labels_that_no_longer_resolve_are_told_as_that_and_not_as_recall():
    before = measurement({"hybrid": [1] * 20})
    lost = measurement({"hybrid": [1] * 20}, fingerprint="2")
    gone = {
        query_id: replace(query, lost=query.spans, places={mode: Place((), "ep02:t007", None) for mode in query.places})
        for query_id, query in list(lost.queries.items())[:8]
    }
    results = judge(replace(lost, queries={**lost.queries, **gone}), before)
    assert failed(results) == {"labels"}
    assert "labels no longer resolve: no passage meets 8 judged spans" in results["labels"].message
    assert "ep01 transcript 00:00-00:20" in results["labels"].details[0].query
    assert "1.000 -> 1.000" in results["primary_metric"].message


def test_without_any_query_nothing_fails():
    nothing = Measurement("one", "hybrid", {})
    assert failed(judge(nothing, None)) == set()
    assert failed(judge(nothing, nothing)) == set()


# floors, README, files


@pytest.mark.parametrize(("floor", "fails"), [(0.5, False), (0.51, True)])
def test_a_figure_below_its_floor_fails(floor, fails):
    now = measurement({"hybrid": [2] * 10})
    result = judge(now, None, settings={"floors": {"dense": {"MRR@10": floor}}})["floors"]
    assert (not result.passed) == fails


def test_a_floor_of_something_that_is_not_measured_is_told_with_what_is():
    result = judge(measurement({"hybrid": [1]}), None, settings={"floors": {"hybird": {"R@5": 0.1}}})["floors"]
    assert not result.passed
    assert "hybird R@5; there are bm25_raw, bm25_stem, dense, hybrid" in result.message


TABLE = "Retrieval mode  R@1\nbm25_raw  1.00\nbm25_stem  1.00\ndense  1.00\nhybrid  {}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TABLE.format("1.00"), None),
        (TABLE.format("0.97"), "hybrid R@1 0.97, measured 1.00"),
        ("# Nothing here\n", "no table"),
        (None, "can't be read"),
    ],
)
def test_the_table_of_the_readme_has_to_be_the_measured_one(text, said):
    result = judge(measurement({"hybrid": [1]}), None, settings={"readme": "../README.md"}, readme=text)["readme_table"]
    assert result.passed == (said is None)
    assert said is None or said in result.message


def test_a_stored_file_that_is_not_what_was_written_fails():
    result = judge(measurement({"hybrid": [1]}), None, damaged=["chunks/ep03.parquet"])["stored_files"]
    assert not result.passed
    assert "chunks/ep03.parquet" in result.message
