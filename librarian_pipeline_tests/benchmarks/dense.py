"""Dense search, ranked and with ties in order, against nothing but the product of the matrix and the query.

Both in one thread: ours uses one, and on a machine with other work the product stalls while it waits for its others.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from librarian_pipeline.retrieval.dense import VectorIndex
from librarian_pipeline.retrieval.embedders.interface import unit_rows
from librarian_pipeline.retrieval.ranking import top_k
from librarian_pipeline.storage.schemas import embeddings_schema
from librarian_pipeline_tests.benchmarks.measuring import Line, compare

NAME = "dense"
SIZES = (2_000, 50_000)
DIMENSIONS = 384
N_HITS = 10
QUERIES_A_ROUND = 20
SEED = 21


def run(quick: bool) -> list[Line]:
    with threadpool_limits(1):
        return [_measure(n, rounds=5 if quick else 15) for n in (SIZES[:1] if quick else SIZES)]


def _measure(n: int, rounds: int) -> Line:
    vectors = unit_rows(np.random.default_rng(SEED).standard_normal((n, DIMENSIONS)).astype(np.float32))
    queries = unit_rows(vectors[:QUERIES_A_ROUND] + vectors[-QUERIES_A_ROUND:])
    index = VectorIndex(_table(vectors))
    assert np.allclose(index.scores(queries[0]), vectors @ queries[0], atol=1e-6)
    return compare(
        "dense search against a bare product",
        f"{n:,} x {DIMENSIONS}, {len(queries)} queries, top {N_HITS}",
        lambda: [top_k(index.chunk_ids, index.scores(query), N_HITS) for query in queries],
        lambda: [vectors @ query for query in queries],
        rounds,
    )


def _table(vectors: npt.NDArray[np.float32]) -> pa.Table:
    n, dimensions = vectors.shape
    embedding = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), dimensions)
    ids = [f"ep:t{number:06d}" for number in range(n)]
    counts = {"n_tokens": [100] * n, "max_tokens": [512] * n}
    columns = {"chunk_id": ids, "embedding": embedding, "model": ["random"] * n, **counts}
    return pa.table(columns, schema=embeddings_schema(dimensions))
