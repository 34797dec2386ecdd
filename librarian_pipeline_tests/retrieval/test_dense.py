import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from librarian_pipeline.retrieval.dense import VectorIndex, vectors_of
from librarian_pipeline.retrieval.embedders.interface import unit_rows
from librarian_pipeline.retrieval.ranking import top_k
from librarian_pipeline.storage.schemas import embeddings_schema

shapes = st.tuples(st.integers(1, 40), st.sampled_from([1, 3, 17, 384]), st.integers(0, 2**32 - 1))


def table_of(vectors: np.ndarray) -> pa.Table:
    values = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), type=pa.float32()), vectors.shape[1])
    ids = [f"ep01:t{number:03d}" for number in range(len(vectors))]
    columns = {"chunk_id": ids, "embedding": values, "model": ["m"] * len(ids), "n_tokens": [9] * len(ids)}
    columns["max_tokens"] = [512] * len(ids)
    return pa.table(columns, schema=embeddings_schema(vectors.shape[1]))


def random_units(n: int, dimensions: int, seed: int) -> np.ndarray:
    return unit_rows(np.random.default_rng(seed).standard_normal((n, dimensions)).astype(np.float32))


@settings(deadline=None, max_examples=60)
@given(shapes)
def test_the_scores_of_unit_vectors_are_the_cosines(shape: tuple[int, int, int]) -> None:
    vectors = random_units(*shape)
    exact = vectors.astype(np.float64) @ vectors[0].astype(np.float64)
    assert VectorIndex(table_of(vectors)).scores(vectors[0]) == pytest.approx(exact, abs=1e-6)


@settings(deadline=None, max_examples=60)
@given(shapes, st.integers(1, 20))
def test_cosines_are_those_of_the_first_values_whatever_the_vectors_lengths(shape: tuple[int, int, int], first: int) -> None:
    vectors = random_units(*shape) * np.linspace(0.5, 2, shape[0], dtype=np.float32)[:, None]
    exact = unit_rows(vectors[:, :first]) @ unit_rows(vectors[:1, :first])[0]
    assert VectorIndex(table_of(vectors)).cosines(3 * vectors[0], first) == pytest.approx(exact, abs=1e-5)


def test_a_vector_of_zeros_has_cosine_0_with_all() -> None:
    vectors = np.array([[1, 0], [0, 0]], dtype=np.float32)
    index = VectorIndex(table_of(vectors))
    assert index.cosines(vectors[0]).tolist() == [1, 0]
    assert index.cosines(vectors[1]).tolist() == [0, 0]


@settings(deadline=None, max_examples=60)
@given(shapes, st.integers(1, 10))
def test_the_nearest_are_those_of_brute_force(shape: tuple[int, int, int], k: int) -> None:
    # Single precision orders near twins its own way, so the vectors lie on a coarse grid, where sums are exact.
    vectors = np.round(random_units(*shape) * 8).astype(np.float32)
    index = VectorIndex(table_of(vectors))
    found = [hit.chunk_id for hit in top_k(index.chunk_ids, index.scores(vectors[0]), k)]
    exact = (vectors.astype(np.float64) * vectors[0].astype(np.float64)).sum(axis=1)
    order = sorted(range(len(vectors)), key=lambda row: (-exact[row], index.chunk_ids[row]))
    assert found == [index.chunk_ids[row] for row in order[:k]]


@pytest.mark.parametrize("n", [2, 7, 13, 101])
def test_equal_vectors_score_the_same_to_the_last_bit_wherever_they_stand(n: int) -> None:
    one, query = random_units(2, 384, seed=5)
    scores = VectorIndex(table_of(np.repeat(one[None], n, axis=0))).scores(query)
    assert len(set(scores.tolist())) == 1


def test_a_score_does_not_depend_on_what_else_is_in_the_index() -> None:
    vectors = random_units(1_003, 384, seed=6)
    order = np.random.default_rng(7).permutation(len(vectors))[:500]
    all_scores = VectorIndex(table_of(vectors)).scores(vectors[0])
    assert VectorIndex(table_of(vectors[order])).scores(vectors[0]).tolist() == all_scores[order].tolist()


def test_vectors_come_out_of_a_sliced_and_chunked_table_as_they_went_in() -> None:
    vectors = random_units(9, 5, seed=8)
    table = pa.concat_tables([table_of(vectors).slice(4), table_of(vectors).slice(0, 4)])
    assert np.array_equal(vectors_of(table), vectors[[4, 5, 6, 7, 8, 0, 1, 2, 3]])


def test_an_empty_table_is_an_index_without_scores() -> None:
    assert VectorIndex(embeddings_schema(3).empty_table()).scores(np.ones(3, dtype=np.float32)).size == 0


def test_scores_are_in_single_precision() -> None:
    vectors = random_units(3, 4, seed=9)
    assert VectorIndex(table_of(vectors)).scores(vectors[0]).dtype == np.float32
