"""Whether two rankings of the same queries differ by more than chance: each query is compared with itself.

The pairs take out what makes some queries harder than others, so that far smaller differences can be told than from the
intervals of two means (Smucker, Allan and Carterette, "A comparison of statistical significance tests for information
retrieval evaluation", CIKM 2007). Comparisons are two-sided: a change may be for better or worse. Gates look for losses
only: `find_loss` is one-sided, its p the chance of a loss at least as large if nothing but chance was at work. What is drawn
at random has a fixed seed: equal figures, equal answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from librarian_pipeline.evaluation.metrics import bootstrap_interval

FLIPS_SEED = 20_240_229
EXACT_UP_TO = 13
"""With this many queries that differ, all 2^13 flips are fewer than those that would be drawn."""
FLIPS = 10_000
_FLIPS_AT_ONCE = 1_000
# Sums of the same numbers in another order differ by less than this, and means of reciprocal ranks by more.
_ROUNDING = 1e-9

Differences = npt.NDArray[np.float64]
"""The value of each query afterwards, less its value before."""


@dataclass(frozen=True)
class Paired:
    """What became of a metric, query by query. `wins` are queries that gained, `losses` those that lost.

    `difference` is the mean over all `n` queries, between `low` and `high` with the confidence that was asked for, and `p`
    the probability of one at least as large, in either direction, if the change did nothing but chance.
    """

    n: int
    wins: int
    losses: int
    difference: float
    low: float
    high: float
    p: float

    @property
    def ties(self) -> int:
        return self.n - self.wins - self.losses


@dataclass(frozen=True)
class Loss:
    """How much a metric fell, query by query. `before` and `after` are means over all `n` queries.

    `p` is the probability of a fall at least as large if the change did nothing but chance: near 1 where the metric rose.
    """

    n: int
    wins: int
    losses: int
    before: float
    after: float
    p: float

    @property
    def difference(self) -> float:
        """Below 0 for a fall."""
        return self.after - self.before


def find_loss(metric: str, before: Mapping[str, float], after: Mapping[str, float]) -> Loss:
    """Whether a metric's values by query id fell, by the one-sided form of the test that `compare_queries` makes.

    Both must have the same queries, and at least one.
    """
    differences = paired_differences(before, after)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    p = sign_test_for_losses(wins, losses) if metric.startswith("R@") else sign_flip_test_for_losses(differences)
    mean_before, mean_after = (float(np.mean(list(values.values()))) for values in (before, after))
    return Loss(len(differences), wins, losses, mean_before, mean_after, p)


def compare_queries(
    metric: str, before: Mapping[str, float], after: Mapping[str, float], *, resamples: int, confidence: float
) -> Paired:
    """Compares a metric's values by query id. Both must have the same queries, and at least one.

    The interval is the percentile bootstrap of the mean difference: queries are drawn as pairs. `p` is that of the sign test
    for R@k, and of the sign-flip test for MRR. R@k is 0 or 1 for a query with one judged span, and the sign test is then
    McNemar's exact test; a query with several spans counts as won or lost by whether its share grew or shrank, however much.
    """
    differences = paired_differences(before, after)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    low, high = bootstrap_interval(differences, resamples=resamples, confidence=confidence)
    p = sign_flip_test(differences) if metric == "MRR" else sign_test(wins, losses)
    return Paired(len(differences), wins, losses, float(differences.mean()), low, high, p)


def paired_differences(before: Mapping[str, float], after: Mapping[str, float]) -> Differences:
    """In the order of `before`. Raises `ValueError` unless both have the same queries, and at least one."""
    if not before or before.keys() != after.keys():
        raise ValueError("only values of the same queries can be paired")
    return np.array([after[query_id] - value for query_id, value in before.items()], dtype=np.float64)


def sign_test(wins: int, losses: int) -> float:
    """The exact sign test, ties left out (Dixon and Mood, JASA 1946): a win is as likely as a loss if nothing changed.

    For values that are 0 or 1, that is McNemar's test with the exact binomial distribution.
    """
    n = wins + losses
    tail = sum(comb(n, k) for k in range(min(wins, losses) + 1))
    return min(1.0, float(2 * tail / 2**n))


def sign_test_for_losses(wins: int, losses: int) -> float:
    """The one-sided exact sign test: the chance of at least as many losses among the queries that differ.

    5 losses and no win: .031; 4 and none: .063; 10 and 4: .090.
    """
    n = wins + losses
    return float(sum(comb(n, k) for k in range(wins + 1)) / 2**n)


def sign_flip_test(differences: Differences) -> float:
    """Fisher's randomisation test for pairs (The Design of Experiments, 1935, section 21): if nothing changed, each
    difference is as likely with the other sign. `p` is the share of flips whose sum is at least as far from 0.

    All flips where they are few; else `FLIPS` drawn at random, the observed one counted with them, so that `p` is never 0
    (Phipson and Smyth, Stat. Appl. Genet. Mol. Biol. 2010).
    """
    observed = abs(float(differences.sum())) - _ROUNDING
    return _share_of_flips(differences, lambda sums: np.abs(sums) >= observed)


def sign_flip_test_for_losses(differences: Differences) -> float:
    """The one-sided form: `p` is the share of flips whose sum is at least as low."""
    observed = float(differences.sum()) + _ROUNDING
    return _share_of_flips(differences, lambda sums: sums <= observed)


def _share_of_flips(differences: Differences, is_as_far: Callable[[Differences], npt.NDArray[np.bool_]]) -> float:
    # Sorted, so that p doesn't depend on the order of the queries.
    sizes = np.sort(np.abs(differences[differences != 0]))
    if len(sizes) <= EXACT_UP_TO:
        every = (np.arange(2 ** len(sizes))[:, np.newaxis] >> np.arange(len(sizes))) & 1
        return float(is_as_far((2 * every - 1) @ sizes).mean())
    generator = np.random.default_rng(FLIPS_SEED)
    as_far = 0
    for _ in range(FLIPS // _FLIPS_AT_ONCE):
        signs = 2 * generator.integers(0, 2, size=(_FLIPS_AT_ONCE, len(sizes)), dtype=np.int8) - 1
        as_far += int(is_as_far(signs @ sizes).sum())
    return (1 + as_far) / (1 + FLIPS)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values, corrected for how many they are (Holm, Scand. J. Statist. 1979), in the order given.

    Those at or below a level are significant together: the chance of any false one among them is at most that level.
    """
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values, dtype=np.float64)[order] * np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return [float(p) for p in corrected]
