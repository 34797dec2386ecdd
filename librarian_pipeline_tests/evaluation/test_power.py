import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from librarian_pipeline.evaluation.power import (
    ALPHA,
    POWER,
    detectable,
    detectable_mean_loss,
    detectable_share_lost,
    mean_loss_power,
    sign_test_power,
)
from librarian_pipeline.storage.schemas import DETECTABLE

SEED = 20_260_101
SIMULATIONS = 1_500
MARGIN = 3 * np.sqrt(POWER * (1 - POWER) / SIMULATIONS)
"""Three standard errors of a simulated power."""


def sign_flip_rejects(differences, generator) -> bool:
    """The one-sided sign-flip permutation test of a mean above 0."""
    signs = generator.choice([-1.0, 1.0], size=(999, len(differences)))
    as_large = (signs @ differences >= differences.sum() - 1e-12).sum()
    return bool((as_large + 1) / 1_000 <= ALPHA)


# What MRR differences look like: most queries stay, some go up or down a few ranks.
SHAPES = {
    "normal": lambda generator, n: generator.normal(size=n),
    "mostly ties": lambda generator, n: generator.choice([0, 0.5, -0.5, 0.17, -0.17, 1, -1], n, p=[0.7, *[0.05] * 6]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [25, 90])
def test_the_detectable_mean_loss_is_found_in_80_of_100_simulated_permutation_tests(shape, n):
    generator = np.random.default_rng(SEED)
    sd = float(SHAPES[shape](generator, 100_000).std())
    effect = detectable_mean_loss(n, sd / 3)  # scaled, so that it is below 1 for few queries too
    found = sum(sign_flip_rejects(SHAPES[shape](generator, n) / 3 + effect, generator) for _ in range(SIMULATIONS))
    assert found / SIMULATIONS == pytest.approx(POWER, abs=MARGIN)


@pytest.mark.parametrize(("n", "flips"), [(60, 0.0), (90, 0.1), (122, 0.05), (300, 0.2)])
def test_the_detectable_share_lost_is_found_in_80_of_100_simulated_sign_tests(n, flips):
    generator = np.random.default_rng(SEED)
    effect = detectable_share_lost(n, flips)
    probabilities = [flips / 2 + effect, flips / 2, 1 - flips - effect]
    found = 0
    for losses, wins, _ in generator.multinomial(n, probabilities, size=SIMULATIONS).tolist():
        found += losses + wins > 0 and binomtest(losses, losses + wins, 0.5, "greater").pvalue <= ALPHA
    assert found / SIMULATIONS == pytest.approx(POWER, abs=MARGIN)


def test_without_a_loss_the_sign_test_rejects_no_more_often_than_it_may():
    for n in (10, 90, 400):
        for flips in (0.02, 0.1, 0.5, 1.0):
            assert sign_test_power(n, flips / 2, flips / 2) <= ALPHA


def test_without_a_loss_the_test_of_a_mean_rejects_as_often_as_it_may():
    assert mean_loss_power(40, 0.3, 0.0) == pytest.approx(ALPHA)


def test_among_many_queries_the_smallest_mean_loss_is_that_of_the_normal_formula():
    assert detectable_mean_loss(10_000, 0.4) == pytest.approx((1.6449 + 0.8416) * 0.4 / 100, rel=1e-3)


def test_five_losses_and_no_win_are_the_fewest_that_are_told():
    assert sign_test_power(5, 1.0, 0.0) == 1.0
    assert sign_test_power(4, 1.0, 0.0) == 0.0


@given(st.integers(5, 400), st.sampled_from([0.01, 0.1, 0.2, 0.4]), st.sampled_from([0.0, 0.01, 0.1, 0.3]))
def test_more_queries_tell_smaller_losses(n, spread, flips):
    for smallest in (lambda n: detectable_mean_loss(n, spread), lambda n: detectable_share_lost(n, flips)):
        few, many = smallest(n), smallest(4 * n)
        assert few is None or many < few


@given(st.integers(0, 4))
def test_fewer_than_five_queries_tell_nothing(n):
    assert detectable_mean_loss(n, 0.1) is None
    assert detectable_share_lost(n, 0.0) is None


def test_a_loss_larger_than_any_is_not_one_that_can_be_told():
    assert detectable_mean_loss(5, 0.9) is None


# What the modes tell


def rankings(**places: list[int]) -> dict[str, dict[str, list[str]]]:
    """For each mode the place of the passage `hit` for each query."""
    return {
        mode: {f"q{n}": [*(f"x{i}" for i in range(place - 1)), "hit"] for n, place in enumerate(of_mode)}
        for mode, of_mode in places.items()
    }


def test_the_mode_that_is_most_like_the_default_one_tells_how_much_a_change_moves(judged):
    queries = [judged(f"q{n}", {"hit"}) for n in range(20)]
    found = rankings(hybrid=[1] * 20, dense=[1] * 16 + [2] * 4, bm25_raw=[1] * 10 + [5] * 10, twin=[1] * 20)
    table = detectable(queries, found, "hybrid")
    assert table.schema == DETECTABLE
    mean, share = [row for row in table.to_pylist() if row["slice"] == "all"]
    assert (mean["metric"], share["metric"]) == ("MRR@10", "R@1")
    assert {(row["mode"], row["like_mode"], row["n_queries"]) for row in (mean, share)} == {("hybrid", "dense", 20)}
    assert mean["spread"] == pytest.approx(np.std([0.0] * 16 + [0.5] * 4, ddof=1))
    assert share["spread"] == pytest.approx(0.2)
    assert mean["effect"] == detectable_mean_loss(20, mean["spread"])
    assert share["effect"] == detectable_share_lost(20, share["spread"])


def test_each_split_has_rows_of_its_own(judged):
    queries = [judged(f"q{n}", {"hit"}, split="test" if n < 8 else "dev") for n in range(20)]
    table = detectable(queries, rankings(hybrid=[1] * 20, dense=[2, 1] * 10), "hybrid")
    assert {(row["slice"], row["n_queries"]) for row in table.to_pylist()} == {("all", 20), ("dev", 12), ("test", 8)}


@pytest.mark.parametrize("n", [0, 1, 20])
def test_modes_that_find_the_same_tell_nothing(judged, n):
    queries = [judged(f"q{i}", {"hit"}) for i in range(n)]
    assert detectable(queries, rankings(hybrid=[1] * n, dense=[1] * n), "hybrid").num_rows == 0
