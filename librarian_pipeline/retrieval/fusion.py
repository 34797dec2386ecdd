"""Two ways to make one ranking of a lexical and a dense one: by their ranks, or by their scores."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from librarian_pipeline.retrieval.ranking import Ranked

Scores = npt.NDArray[np.float64]
"""A score for every passage, shape (n,), in the order of an index."""

SETTLED_BY = 10
"""With this many passages in a language, their mean counts as much as that of the whole archive."""


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Ranked]], c: int) -> list[Ranked]:
    """The union of the rankings by the sum of 1 / (c + rank), ranks from 1; ties by best rank, then by id.

    Cormack, Clarke and Buettcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods",
    SIGIR 2009.
    """
    scores: dict[str, float] = {}
    best_ranks: dict[str, int] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, start=1):
            scores[hit.chunk_id] = scores.get(hit.chunk_id, 0.0) + 1 / (c + rank)
            best_ranks[hit.chunk_id] = min(rank, best_ranks.get(hit.chunk_id, rank))
    order = sorted(scores, key=lambda chunk_id: (-scores[chunk_id], best_ranks[chunk_id], chunk_id))
    return [Ranked(chunk_id, scores[chunk_id]) for chunk_id in order]


def convex_combination(dense: Scores, lexical: Scores, dense_weight: float) -> Scores:
    """dense_weight * dense + (1 - dense_weight) * lexical, of normalised scores and a weight from 0 to 1.

    Bruch, Gai and Ingber, "An analysis of fusion functions for hybrid retrieval", ACM TOIS 42(1), 2023: unlike ranks, scores
    keep how far apart two passages are, and one weight is tuned with few labels.
    """
    return dense_weight * dense + (1 - dense_weight) * lexical


def min_max(scores: Scores) -> Scores:
    """(score - lowest) / (highest - lowest): from 0 to 1, whatever range a model's cosines keep to; 0 if all are equal."""
    if not len(scores) or (span := scores.max() - scores.min()) == 0:
        return np.zeros_like(scores)
    normalised: Scores = (scores - scores.min()) / span
    return normalised


def share_of_highest(scores: Scores, highest: float) -> Scores:
    """score / highest, `highest` being what a perfect match would get: the normalisation by a theoretical maximum.

    The best of poor matches stays poor, so that a query speaks through its words only as far as the archive has them
    (with the highest score that was found instead, a match of function words alone would count as a perfect one).
    """
    return scores / highest if highest > 0 else np.zeros_like(scores)


def centred_by_language(scores: Scores, languages: npt.NDArray[np.str_], strength: float) -> Scores:
    """The scores less `strength` times what a passage's language is above the archive's mean, for this query.

    Multilingual models put a query nearer to all that is in its own language (Yang et al., "A simple and effective method to
    eliminate the self language bias in multilingual representations", EMNLP 2021), which keeps passages in another one from
    ever being found. The mean of n passages is shrunk towards the archive's by n / (n + 10): a few passages are no language.
    """
    centred = scores.copy()
    for language in np.unique(languages):
        own = languages == language
        offset = scores[own].mean() - scores.mean()
        centred[own] -= strength * offset * own.sum() / (own.sum() + SETTLED_BY)
    return centred
