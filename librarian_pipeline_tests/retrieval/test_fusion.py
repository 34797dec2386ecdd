from fractions import Fraction
from itertools import count

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.retrieval.fusion import (
    SETTLED_BY,
    Scores,
    centred_by_language,
    convex_combination,
    min_max,
    reciprocal_rank_fusion,
    share_of_highest,
)
from librarian_pipeline.retrieval.ranking import Ranked

rankings_of_ids = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8), max_size=2)


def ranking(ids: str | list[str]) -> list[Ranked]:
    """The ids in this order; the scores are arbitrary, as fusion doesn't look at them."""
    return [Ranked(chunk_id, 7.0 - number) for number, chunk_id in enumerate(ids)]


def fused(*orders: str | list[str], c: int = 60) -> list[str]:
    return [hit.chunk_id for hit in reciprocal_rank_fusion([ranking(order) for order in orders], c)]


@given(rankings_of_ids, st.sampled_from([1, 10, 60]))
def test_the_order_is_by_the_exact_sum_of_reciprocal_ranks_then_best_rank_then_id(orders: list[list[str]], c: int) -> None:
    keys = {}
    for chunk_id in {chunk_id for order in orders for chunk_id in order}:
        ranks = [order.index(chunk_id) + 1 for order in orders if chunk_id in order]
        keys[chunk_id] = (-sum(Fraction(1, c + rank) for rank in ranks), min(ranks), chunk_id)
    assert fused(*orders, c=c) == sorted(keys, key=keys.__getitem__)


@given(rankings_of_ids)
def test_the_order_of_the_rankings_does_not_matter(orders: list[list[str]]) -> None:
    assert fused(*orders) == fused(*reversed(orders))


def test_a_score_is_the_sum_over_the_rankings_with_ranks_from_one() -> None:
    scores = {hit.chunk_id: hit.score for hit in reciprocal_rank_fusion([ranking("ab"), ranking("bc")], 60)}
    assert scores == {"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62}


def test_first_in_one_ranking_and_second_in_the_other_gives_the_published_figure() -> None:
    (best, *_) = reciprocal_rank_fusion([ranking("ab"), ranking("xa")], 60)
    assert (best.chunk_id, best.score) == ("a", pytest.approx(0.0325225, abs=1e-7))


@pytest.mark.parametrize(("rank", "winner"), [(61, "both"), (63, "single")])
def test_at_sixty_a_place_in_both_rankings_outweighs_a_first_place_up_to_rank_sixty_one(rank: int, winner: str) -> None:
    filler = (f"f{number:03d}" for number in count())
    first, second = (["single"] + [next(filler) for _ in range(rank - 2)], [next(filler) for _ in range(rank - 1)])
    order = fused([*first, "both"], [*second, "both"])
    assert min(("both", "single"), key=order.index) == winner


def test_of_equal_sums_the_better_rank_comes_first() -> None:
    # 1/(2+1) = 1/(2+4) + 1/(2+4)
    assert fused("zbca", "pqra", c=2).index("z") < fused("zbca", "pqra", c=2).index("a")


def test_of_equal_sums_and_ranks_the_smaller_id_comes_first() -> None:
    assert fused("ba", "ab") == ["a", "b"]


@pytest.mark.parametrize("rankings", [[], [[]], [[], []]])
def test_nothing_fused_is_nothing(rankings: list[list[Ranked]]) -> None:
    assert reciprocal_rank_fusion(rankings, 60) == []


def test_an_empty_ranking_leaves_the_other_in_its_order() -> None:
    assert fused("cab", "") == ["c", "a", "b"]


# Convex combination of normalised scores

# Eighths, so that sums and differences are exact.
eighths = st.integers(-80, 80).map(lambda n: n / 8)
scores_of_passages = st.lists(eighths, min_size=1, max_size=12).map(np.array)
weights = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


@given(scores_of_passages)
def test_min_max_is_the_exact_place_of_each_score_between_the_lowest_and_the_highest(scores: Scores) -> None:
    low, high = Fraction(scores.min()), Fraction(scores.max())
    exact = [float((Fraction(score) - low) / (high - low)) if high > low else 0.0 for score in scores]
    assert min_max(scores).tolist() == pytest.approx(exact, abs=1e-15)


@given(scores_of_passages, st.integers(1, 64), eighths)
def test_min_max_does_not_depend_on_the_scale_and_origin_of_the_scores(scores: Scores, scale: int, origin: float) -> None:
    assert min_max(scores * scale + origin).tolist() == min_max(scores).tolist()


@pytest.mark.parametrize("scores", [[], [0.7], [0.7, 0.7]])
def test_min_max_of_scores_that_tell_nothing_apart_is_zero(scores: list[float]) -> None:
    assert min_max(np.array(scores)).tolist() == [0.0] * len(scores)


@given(scores_of_passages, st.integers(1, 64), st.integers(1, 64))
def test_the_share_of_the_highest_is_one_for_a_perfect_match_whatever_the_scale(
    scores: Scores, highest: int, scale: int
) -> None:
    assert share_of_highest(scores, highest).tolist() == [score / highest for score in scores]
    assert share_of_highest(scores * scale, highest * scale).tolist() == share_of_highest(scores, highest).tolist()
    assert share_of_highest(np.array([float(highest)]), highest).tolist() == [1.0]


def test_where_no_match_was_possible_no_share_is_above_zero() -> None:
    assert share_of_highest(np.array([0.0, 0.0]), 0.0).tolist() == [0.0, 0.0]


@given(st.data(), weights)
def test_a_combination_lies_between_its_branches(data: st.DataObject, weight: float) -> None:
    dense = data.draw(scores_of_passages)
    lexical = np.array(data.draw(st.lists(eighths, min_size=len(dense), max_size=len(dense))))
    combined = convex_combination(dense, lexical, weight)
    assert (np.minimum(dense, lexical) <= combined).all()
    assert (combined <= np.maximum(dense, lexical)).all()


@given(scores_of_passages)
def test_all_weight_on_one_branch_is_that_branch(scores: Scores) -> None:
    other = scores[::-1]
    assert convex_combination(scores, other, 1).tolist() == scores.tolist()
    assert convex_combination(other, scores, 0).tolist() == scores.tolist()


@given(eighths, eighths, st.sampled_from([0.25, 0.5, 0.75]), st.integers(1, 8))
def test_more_in_either_branch_is_more_in_all(dense: float, lexical: float, weight: float, more: int) -> None:
    before = convex_combination(np.array([dense]), np.array([lexical]), weight)
    assert convex_combination(np.array([dense + more]), np.array([lexical]), weight) > before
    assert convex_combination(np.array([dense]), np.array([lexical + more]), weight) > before


# Languages

passages_with_languages = st.lists(st.tuples(eighths, st.sampled_from(["cs", "en", "und"])), min_size=1, max_size=12).map(
    lambda rows: (np.array([score for score, _ in rows]), np.array([language for _, language in rows]))
)


@given(passages_with_languages, weights)
def test_centring_takes_the_shrunk_offset_of_each_language_exactly(
    passages: tuple[Scores, npt.NDArray[np.str_]], strength: float
) -> None:
    scores, languages = passages
    exact = []
    for score, language in zip(scores, languages, strict=True):
        own = [Fraction(other) for other in scores[languages == language]]
        offset = sum(own) / len(own) - sum(map(Fraction, scores)) / len(scores)
        exact.append(float(Fraction(score) - Fraction(strength) * offset * Fraction(len(own), len(own) + SETTLED_BY)))
    assert centred_by_language(scores, languages, strength).tolist() == pytest.approx(exact, abs=1e-12)


@given(passages_with_languages)
def test_centring_keeps_the_order_within_a_language(passages: tuple[Scores, npt.NDArray[np.str_]]) -> None:
    scores, languages = passages
    centred = centred_by_language(scores, languages, 1)
    for language in set(languages):
        own = languages == language
        assert np.argsort(centred[own], kind="stable").tolist() == np.argsort(scores[own], kind="stable").tolist()


@given(scores_of_passages, weights)
def test_in_an_archive_of_one_language_centring_changes_nothing(scores: Scores, strength: float) -> None:
    assert centred_by_language(scores, np.array(["en"] * len(scores)), strength).tolist() == scores.tolist()


@given(st.integers(1, 500))
def test_what_all_passages_of_a_language_have_in_common_goes_the_more_the_more_they_are(n: int) -> None:
    spread = np.linspace(0, 0.05, n)
    centred = centred_by_language(np.concatenate([spread + 0.8, spread + 0.7]), np.array(["cs"] * n + ["en"] * n), 1)
    assert centred[:n].mean() - centred[n:].mean() == pytest.approx(0.1 * SETTLED_BY / (n + SETTLED_BY))
