from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.retrieval.ranking import Ranked, top_k

# Few values, so that ties come up often.
scored = st.lists(st.tuples(st.sampled_from([-1.5, 0.0, 0.25, 1.0, 2.0]), st.booleans()), max_size=30)


def brute_force(ids: list[str], scores: list[float], k: int, candidates: list[bool]) -> list[Ranked]:
    hits = [Ranked(*pair) for pair, taken in zip(zip(ids, scores, strict=True), candidates, strict=True) if taken]
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:k]


@given(scored, st.integers(1, 35), st.randoms(use_true_random=False))
def test_the_best_candidates_are_those_of_a_full_sort(drawn: list[tuple[float, bool]], k: int, random: Any) -> None:
    ids = [f"ep01:t{number:03d}" for number in range(len(drawn))]
    random.shuffle(ids)
    scores, candidates = [score for score, _ in drawn], [taken for _, taken in drawn]
    found = top_k(ids, np.array(scores), k, np.array(candidates, dtype=np.bool_))
    assert found == brute_force(ids, scores, k, candidates)


@given(scored, st.integers(1, 35), st.randoms(use_true_random=False))
def test_the_order_of_the_index_does_not_matter(drawn: list[tuple[float, bool]], k: int, random: Any) -> None:
    rows = [(f"ep01:t{number:03d}", score) for number, (score, _) in enumerate(drawn)]
    mixed = random.sample(rows, len(rows))
    found, found_mixed = (top_k([r[0] for r in order], np.array([r[1] for r in order]), k) for order in (rows, mixed))
    assert found == found_mixed


def test_of_equal_scores_at_the_cut_the_smallest_ids_are_taken() -> None:
    found = top_k(["d", "c", "b", "a", "top"], np.array([1.0, 1.0, 1.0, 1.0, 2.0]), 3)
    assert [hit.chunk_id for hit in found] == ["top", "a", "b"]


def test_all_documents_are_candidates_unless_told_otherwise() -> None:
    assert [hit.chunk_id for hit in top_k(["a", "b"], np.array([0.0, -1.0]), 5)] == ["a", "b"]


@pytest.mark.parametrize("score", [0.0, -0.5])
def test_a_candidate_without_a_positive_score_is_ranked(score: float) -> None:
    assert top_k(["a", "b"], np.array([score, 9.0]), 5, np.array([True, False])) == [Ranked("a", score)]


def test_without_documents_there_is_no_rank() -> None:
    assert top_k([], np.zeros(0), 5) == []


def test_single_precision_scores_are_ranked_as_they_are() -> None:
    scores = np.array([0.1, 0.1 + 1e-8, 0.2], dtype=np.float32)  # the first two are the same number
    assert [hit.chunk_id for hit in top_k(["b", "a", "c"], scores, 3)] == ["c", "a", "b"]
