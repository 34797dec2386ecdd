"""The smallest loss that the gold set can tell from chance: at significance `ALPHA`, one-sided, with a chance of `POWER`.

For a mean, such as that of MRR@10, the test is a paired one on the differences of the queries. Its power is that of the
one-sided paired t-test, which the sign-flip permutation test reaches as n grows (Hoeffding 1952):

    P(T > t(1 - alpha; n - 1)),  T noncentral t with n - 1 degrees of freedom and noncentrality effect * sqrt(n) / sd

where sd is the standard deviation of the differences (Cohen 1988, ch. 2; for retrieval Sakai 2016, "Topic set size design",
Information Retrieval Journal 19:256-283). For large n the smallest effect is (z(1 - alpha) + z(power)) * sd / sqrt(n).

For R@1 it is the exact sign test on the queries that flip (Dixon and Mood 1946). Of n queries D flip, D being binomial with
n and losses + wins; L of them are losses, L being binomial with D and losses / (losses + wins); the test rejects where
P(Binomial(D, 1/2) >= L) <= alpha. Its power is the sum over D (Miettinen 1968, Biometrics 24:339-352; Connor 1987,
Biometrics 43:207-211). The effect is the share of losses beyond the flips there usually are, half losses and half wins.

Neither sd nor the usual share of flips can be known before a change is there. As Webber, Moffat and Zobel do ("Statistical
power in retrieval experimentation", CIKM 2008), they are taken from runs at hand: the default mode against the mode that is
most like it. A smaller change flips fewer queries, and smaller losses of it are told.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from librarian_pipeline.evaluation.judging import JudgedQuery
from librarian_pipeline.evaluation.metrics import EVERYTHING, PRIMARY, Numbers, Ranking, per_query
from librarian_pipeline.storage.schemas import DETECTABLE

ALPHA = 0.05
POWER = 0.8


def detectable(queries: Sequence[JudgedQuery], rankings: Mapping[str, Ranking], mode: str) -> pa.Table:
    """Of all queries and of each split a row for the primary metric and one for R@1 of `mode`; columns as in
    `schemas.DETECTABLE`.

    `spread` is the standard deviation of the differences, or the share of queries that flip, between `mode` and `like_mode`.
    `effect` is None where no loss would be told. A slice in which no other mode differs has no rows.
    """
    splits = sorted({query.split for query in queries})
    parts = {EVERYTHING: queries, **{split: [query for query in queries if query.split == split] for split in splits}}
    rows = [{"slice": name, **row} for name, part in parts.items() for row in _detectable_rows(part, rankings, mode)]
    return pa.Table.from_pylist(rows, schema=DETECTABLE)


def _detectable_rows(queries: Sequence[JudgedQuery], rankings: Mapping[str, Ranking], mode: str) -> list[dict[str, Any]]:
    values = {name: per_query(queries, ranking) for name, ranking in rankings.items()}
    differences = {name: _differences(values[mode][PRIMARY], values[name][PRIMARY]) for name in rankings if name != mode}
    # Without a spread, as where all differ alike, no chance is to be told from an effect.
    spreads = {name: sd for name, found in differences.items() if len(found) > 1 and (sd := float(np.std(found, ddof=1)))}
    if not spreads:
        return []
    like_mode = min(spreads, key=lambda name: spreads[name])
    n = len(differences[like_mode])
    flips = float(np.mean(_differences(values[mode]["R@1"], values[like_mode]["R@1"]) != 0))
    rows = [
        {"metric": PRIMARY, "spread": spreads[like_mode], "effect": detectable_mean_loss(n, spreads[like_mode])},
        {"metric": "R@1", "spread": flips, "effect": detectable_share_lost(n, flips)},
    ]
    common = {"mode": mode, "like_mode": like_mode, "n_queries": n}
    return [{**common, **row} for row in rows]


def _differences(one: Mapping[str, float], other: Mapping[str, float]) -> Numbers:
    return np.array([one[query_id] - other[query_id] for query_id in one])


def detectable_mean_loss(n: int, sd: float, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest true loss of a mean over `n` queries that is told; `sd` is that of the differences, above 0.

    None where no loss is told: the sign flips of so few queries can't give a p of `alpha`, or it would be more than 1.
    """
    from scipy.optimize import brentq

    if 0.5**n > alpha:
        return None
    beyond = 20 * sd / sqrt(n) + sd  # of power 1, for any n that comes here
    effect = float(brentq(lambda effect: mean_loss_power(n, sd, effect, alpha) - power, 0.0, beyond))
    return effect if effect <= 1 else None


def mean_loss_power(n: int, sd: float, effect: float, alpha: float = ALPHA) -> float:
    """How probably a one-sided paired t-test on `n` differences of standard deviation `sd` tells a mean loss of `effect`."""
    from scipy.stats import nct, t

    return float(nct.sf(t.isf(alpha, n - 1), n - 1, effect * sqrt(n) / sd))


def detectable_share_lost(n: int, flips: float, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest share of `n` queries that is lost, beyond a share of `flips` half of which are losses and half wins, so
    that the exact sign test tells it. None where no share is."""
    from scipy.optimize import brentq

    def missing(effect: float) -> float:
        return sign_test_power(n, flips / 2 + effect, flips / 2, alpha) - power

    most = 1 - flips
    return float(brentq(missing, 0.0, most)) if missing(most) >= 0 else None


def sign_test_power(n: int, losses: float, wins: float, alpha: float = ALPHA) -> float:
    """How probably the exact one-sided sign test tells that more is lost than won, if each of `n` queries is lost with the
    probability `losses`, won with `wins`, and else stays as it was."""
    from scipy.stats import binom

    flip = losses + wins
    if flip == 0:
        return 0.0
    flipped = np.arange(n + 1)
    most_by_chance = binom.isf(alpha, flipped, 0.5)  # the smallest k with P(L > k) <= alpha: more losses than k reject
    return float(np.sum(binom.pmf(flipped, n, min(flip, 1.0)) * binom.sf(most_by_chance, flipped, losses / flip)))
