from fractions import Fraction
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.retrieval.fusion import reciprocal_rank_fusion
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
