import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from librarian_pipeline.evaluation.metrics import METRICS
from librarian_pipeline.evaluation.paired import (
    EXACT_UP_TO,
    FLIPS,
    compare_queries,
    find_loss,
    holm,
    paired_differences,
    sign_flip_test,
    sign_flip_test_for_losses,
    sign_test,
    sign_test_for_losses,
)

RECIPROCAL_RANKS = st.sampled_from([0.0, *(1 / rank for rank in (1, 2, 3, 4, 5, 7, 10, 33, 100))])
# Sums of these are exact, so that what ties is the same for everybody.
EXACT = st.sampled_from([sign / 2**power for power in range(6) for sign in (1, -1)])
PAIRS = st.dictionaries(st.text(max_size=3), st.tuples(RECIPROCAL_RANKS, RECIPROCAL_RANKS), min_size=1, max_size=30)
P_VALUES = st.lists(st.floats(0, 1), max_size=12)
INTERVAL = {"resamples": 200, "confidence": 0.95}


def compared(metric, pairs, **changes):
    before = {query_id: pair[0] for query_id, pair in pairs.items()}
    after = {query_id: pair[1] for query_id, pair in pairs.items()}
    return compare_queries(metric, before, after, **{**INTERVAL, **changes})


@given(st.sampled_from(METRICS), PAIRS)
def test_the_same_values_differ_by_nothing_and_p_is_1(metric, pairs):
    paired = compared(metric, {query_id: (before, before) for query_id, (before, _) in pairs.items()})
    assert (paired.difference, paired.low, paired.high, paired.p) == (0, 0, 0, 1)
    assert (paired.wins, paired.losses, paired.ties) == (0, 0, len(pairs))


@given(st.sampled_from(METRICS), PAIRS)
def test_the_other_way_round_everything_is_mirrored_and_p_is_the_same(metric, pairs):
    there = compared(metric, pairs)
    back = compared(metric, {query_id: (after, before) for query_id, (before, after) in pairs.items()})
    assert (back.wins, back.losses, back.ties, back.p) == (there.losses, there.wins, there.ties, there.p)
    assert [back.difference, back.low, back.high] == pytest.approx([-there.difference, -there.high, -there.low])


@given(PAIRS, st.randoms(use_true_random=False))
def test_p_does_not_depend_on_the_order_of_the_queries(pairs, random):
    shuffled = list(pairs.items())
    random.shuffle(shuffled)
    assert compared("MRR", dict(shuffled)).p == compared("MRR", pairs).p


@given(PAIRS)
def test_the_difference_is_that_of_the_means_and_its_interval_is_within_those_of_the_queries(pairs):
    paired = compared("MRR", pairs)
    before, after = np.array(list(pairs.values())).T
    assert paired.difference == pytest.approx(after.mean() - before.mean())
    assert (after - before).min() - 1e-9 <= paired.low <= paired.high <= (after - before).max() + 1e-9
    assert (paired.wins, paired.losses) == ((after > before).sum(), (after < before).sum())


def test_the_interval_is_scipys_paired_percentile_bootstrap_within_its_noise():
    generator = np.random.default_rng(7)
    differences = generator.choice([-0.5, 0, 0, 0.25, 1], size=60)
    pairs = {str(n): (0.0, value) for n, value in enumerate(differences)}
    paired = compared("MRR", pairs, resamples=20_000)
    expected = stats.bootstrap((differences,), np.mean, n_resamples=20_000, method="percentile", rng=generator)
    assert [paired.low, paired.high] == pytest.approx(list(expected.confidence_interval), abs=0.015)


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_sign_test_is_scipys_exact_binomial_test(wins, losses):
    expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert sign_test(wins, losses) == pytest.approx(expected)


@given(st.lists(EXACT, min_size=2, max_size=10))
def test_few_differences_are_flipped_in_every_way_as_scipy_does(differences):
    sample = np.array(differences)
    expected = stats.permutation_test((sample,), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue
    assert sign_flip_test(sample) == pytest.approx(expected)


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.2])
def test_drawn_flips_come_to_what_scipys_come_to_within_their_noise(shift):
    sample = np.random.default_rng(11).normal(shift, 0.5, size=60)
    expected = stats.permutation_test(
        (sample,), np.sum, permutation_type="samples", n_resamples=100_000, rng=np.random.default_rng(3)
    ).pvalue
    assert sign_flip_test(sample) == pytest.approx(expected, abs=4 * np.sqrt(expected / FLIPS) + 1e-4)


def test_drawn_flips_never_come_to_a_p_of_0():
    assert sign_flip_test(np.ones(EXACT_UP_TO + 50)) == 1 / (1 + FLIPS)


def test_exact_and_drawn_flips_agree_where_one_passes_into_the_other():
    sample = np.random.default_rng(5).normal(0.2, 0.5, size=EXACT_UP_TO)
    tiny = np.array([1e-6])
    assert sign_flip_test(np.concatenate([sample, tiny])) == pytest.approx(sign_flip_test(sample), abs=0.02)


def test_recall_counts_queries_and_mrr_weighs_how_far_they_moved():
    one_great_loss = {"a": (1.0, 0.0), **{f"w{n}": (0.0, 0.01) for n in range(6)}}
    assert compared("R@5", one_great_loss).p == sign_test(6, 1)
    assert compared("MRR", one_great_loss).p == 1.0


@pytest.mark.parametrize(("before", "after"), [({}, {}), ({"a": 1.0}, {"b": 1.0}), ({"a": 1.0}, {"a": 1.0, "b": 1.0})])
def test_values_of_other_queries_are_no_pairs(before, after):
    with pytest.raises(ValueError, match="same queries"):
        paired_differences(before, after)


def test_holm_as_worked_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(P_VALUES)
def test_holm_never_lowers_a_p_nor_passes_bonferronis_and_keeps_the_order(p_values):
    corrected = holm(p_values)
    n = len(p_values)
    for p, adjusted in zip(p_values, corrected, strict=True):
        assert p <= adjusted <= min(1.0, p * n)
    pairs = sorted(zip(p_values, corrected, strict=True))
    assert [adjusted for _, adjusted in pairs] == sorted(corrected)


@given(P_VALUES, st.randoms(use_true_random=False))
def test_holm_does_not_depend_on_the_order_they_come_in(p_values, random):
    order = list(range(len(p_values)))
    random.shuffle(order)
    assert holm([p_values[n] for n in order]) == [holm(p_values)[n] for n in order]


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_sign_test_for_losses_is_scipys_one_sided_binomial_test(wins, losses):
    expected = stats.binomtest(wins, wins + losses, alternative="less").pvalue if wins + losses else 1.0
    assert sign_test_for_losses(wins, losses) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("wins", "losses", "p"), [(0, 5, 1 / 32), (0, 4, 1 / 16), (1, 6, 8 / 128), (4, 10, 1_471 / 16_384), (0, 0, 1)]
)
def test_the_sign_test_for_losses_as_worked_by_hand(wins, losses, p):
    assert sign_test_for_losses(wins, losses) == p


@given(st.lists(EXACT, min_size=2, max_size=10))
def test_few_differences_are_flipped_for_losses_as_scipy_does(differences):
    sample = np.array(differences)
    expected = stats.permutation_test(
        (sample,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative="less"
    ).pvalue
    assert sign_flip_test_for_losses(sample) == pytest.approx(expected)


@pytest.mark.parametrize("shift", [-0.2, -0.1, 0.0, 0.2])
def test_drawn_flips_for_losses_come_to_what_scipys_come_to_within_their_noise(shift):
    sample = np.random.default_rng(11).normal(shift, 0.5, size=60)
    expected = stats.permutation_test(
        (sample,), np.sum, permutation_type="samples", n_resamples=100_000, alternative="less", rng=np.random.default_rng(3)
    ).pvalue
    assert sign_flip_test_for_losses(sample) == pytest.approx(expected, abs=4 * np.sqrt(expected / FLIPS) + 1e-4)


@given(st.sampled_from(["R@1", "MRR@10"]), PAIRS)
def test_a_loss_is_a_win_the_other_way_round_and_only_one_of_them_can_be_significant(metric, pairs):
    before = {query_id: pair[0] for query_id, pair in pairs.items()}
    after = {query_id: pair[1] for query_id, pair in pairs.items()}
    there, back = find_loss(metric, before, after), find_loss(metric, after, before)
    assert (there.wins, there.losses, there.difference) == (back.losses, back.wins, -back.difference)
    assert there.p + back.p >= 0.97  # 1, but for the noise of flips that are drawn
    if there.p <= 0.05:
        assert there.losses > 0
