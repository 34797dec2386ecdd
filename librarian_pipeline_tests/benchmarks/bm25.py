"""BM25 queries against rank-bm25 over the same documents, after both gave the same scores to the last bit."""

from collections.abc import Callable

import numpy as np
from rank_bm25 import BM25Okapi

from librarian_pipeline.retrieval.bm25 import Bm25Index, build_bm25
from librarian_pipeline.retrieval.ranking import top_k
from librarian_pipeline.settings import Bm25Settings
from librarian_pipeline_tests.benchmarks.measuring import Line, compare

NAME = "bm25"
SIZES = (2_000, 50_000)
VOCABULARY = 30_000
DOCUMENT_TOKENS = 80
QUERY_TOKENS = 8
N_HITS = 10
QUERIES_A_ROUND = 3
SEED = 20


def run(quick: bool) -> list[Line]:
    return [_measure(n, rounds=3 if quick else 7) for n in (SIZES[:1] if quick else SIZES)]


def _measure(n: int, rounds: int) -> Line:
    generator = np.random.default_rng(SEED)
    documents = _texts(generator, n, DOCUMENT_TOKENS)
    queries = _texts(generator, QUERIES_A_ROUND, QUERY_TOKENS)
    chunk_ids = [f"ep{number // 100:04d}:t{number % 100:03d}" for number in range(n)]
    index = Bm25Index(build_bm25(chunk_ids, ["en"] * n, documents, Bm25Settings()))
    reference = BM25Okapi(documents)
    for query in queries:
        assert np.array_equal(index.scores(query)[0], reference.get_scores(query))
    case = f"{n:,} passages, {len(queries)} queries, top {N_HITS}"
    ours = _for_each(queries, lambda query: _search(index, query))
    theirs = _for_each(queries, lambda query: reference.get_top_n(query, chunk_ids, N_HITS))
    return compare("BM25 against rank-bm25", case, ours, theirs, rounds)


def _for_each(queries: list[list[str]], search: Callable[[list[str]], object]) -> Callable[[], object]:
    return lambda: [search(query) for query in queries]


def _search(index: Bm25Index, query: list[str]) -> object:
    scores, candidates = index.scores(query)
    return top_k(index.chunk_ids, scores, N_HITS, candidates)


def _texts(generator: np.random.Generator, n: int, tokens: int) -> list[list[str]]:
    """Words by Zipf's law: the word of rank r comes up in proportion to 1/r."""
    weights = 1 / np.arange(1, VOCABULARY + 1)
    ranks = generator.choice(VOCABULARY, size=(n, tokens), p=weights / weights.sum())
    return [[f"w{rank}" for rank in row] for row in ranks.tolist()]
