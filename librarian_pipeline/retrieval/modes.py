"""The one place that defines every retrieval mode. Evaluation, command line and servers all call `Searcher.search`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, get_args
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from librarian_pipeline.errors import UsageError
from librarian_pipeline.retrieval.bm25 import Bm25Index
from librarian_pipeline.retrieval.dense import VectorIndex
from librarian_pipeline.retrieval.embedders import Embedder
from librarian_pipeline.retrieval.embedders.interface import Vectors
from librarian_pipeline.retrieval.fusion import (
    Scores,
    centred_by_language,
    convex_combination,
    min_max,
    reciprocal_rank_fusion,
    share_of_highest,
)
from librarian_pipeline.retrieval.ranking import Ranked, top_k
from librarian_pipeline.settings import FusionSettings, Mode
from librarian_pipeline.text.lemmas import Normalizer
from librarian_pipeline.text.tokens import raw_tokens

MODES: tuple[str, ...] = get_args(Mode)
BRANCHES = ("bm25_stem", "dense")
"""What the fused modes are made of."""
FUSED_MODES = tuple(mode for mode in MODES if mode.startswith("hybrid"))
PLAIN_FUSION = "hybrid"
"""Reciprocal rank fusion: the reference, which on unevenly matched branches lies between them."""
MAX_K = 1_000


@dataclass(frozen=True)
class Passage:
    """A row of `chunks`, as far as readers of a result need it; times in milliseconds, None where the notes give none."""

    chunk_id: str
    episode_id: str
    layer: str
    start_ms: int | None
    end_ms: int | None
    heading: str | None
    text: str
    language: str
    first_segment: int | None
    last_segment: int | None


@dataclass(frozen=True)
class Hit:
    """A passage at its rank (from 1). Scores of different modes can't be compared."""

    rank: int
    score: float
    passage: Passage


class Searcher:
    """All modes over one set of indexes. The embedding model is loaded when a dense query first needs it."""

    def __init__(
        self,
        chunks: pa.Table,
        raw_index: Bm25Index,
        stem_index: Bm25Index,
        vector_index: VectorIndex,
        normalizer: Normalizer,
        load_embedder: Callable[[], Embedder],
        fusion: FusionSettings,
        default_mode: str,
    ) -> None:
        self.passages = passages_of(chunks)
        self.stem_index = stem_index
        self.normalizer = normalizer
        self._raw_index = raw_index
        self._documents_in = {
            str(language): stem_index.languages == language for language in np.unique(stem_index.languages)
        }
        self._vector_index = vector_index
        self._vector_rows = _rows_of(vector_index.chunk_ids, stem_index.chunk_ids)
        self._fusion = fusion
        self.default_mode = default_mode
        self._load_embedder = load_embedder
        self._embedder: Embedder | None = None
        # Dense and the hybrids embed the same query one after the other.
        self._query_vector = lru_cache(maxsize=1024)(self._embed_query)
        self._rankers: dict[str, Callable[[str, int], list[Ranked]]] = {
            "bm25_raw": self._rank_raw,
            "bm25_stem": self._rank_stem,
            "dense": self._rank_dense,
            "hybrid": self._rank_hybrid,
            "hybrid_cc": self._rank_hybrid_cc,
        }

    def search(self, query: str, mode: str | None = None, k: int = 5) -> list[Hit]:
        """The `k` best passages for a query, best first, in a mode or the default one. Fewer, or none, where fewer passages
        are candidates, and none for signs without a word: a model would rank passages by chance.

        Raises `UsageError` for a blank query, an unknown mode, or a `k` outside 1 to `MAX_K`.
        """
        if not query.strip():
            raise UsageError("the query is blank", "ask for something")
        mode = self.default_mode if mode is None else mode
        if mode not in self._rankers:
            raise UsageError(f"there is no mode {mode!r}", f"use one of: {', '.join(MODES)}")
        if not 1 <= k <= MAX_K:
            raise UsageError(f"k = {k} is out of range", f"use 1 to {MAX_K}")
        cleaned = _clean(query)
        ranked = self._rankers[mode](cleaned, k) if raw_tokens(cleaned) else []
        return [Hit(rank, hit.score, self.passages[hit.chunk_id]) for rank, hit in enumerate(ranked, start=1)]

    def _rank_raw(self, query: str, k: int) -> list[Ranked]:
        scores, candidates = self._raw_index.scores(raw_tokens(query))
        return top_k(self._raw_index.chunk_ids, scores, k, candidates)

    def _rank_stem(self, query: str, k: int) -> list[Ranked]:
        scores, candidates, _ = self._stem_scores(query)
        return top_k(self.stem_index.chunk_ids, scores, k, candidates)

    def _stem_scores(self, query: str) -> tuple[Scores, npt.NDArray[np.bool_], float]:
        """(score, is candidate) of every passage, and the highest score that the query could have got.

        Each passage is scored against the query normalised in the passage's own language.
        """
        index = self.stem_index
        scores, candidates = np.zeros(len(index.chunk_ids)), np.zeros(len(index.chunk_ids), dtype=np.bool_)
        highest = 0.0
        for language, own in self._documents_in.items():
            terms = self.normalizer.terms(query, language)
            language_scores, language_candidates = index.scores(terms)
            scores[own], candidates[own] = language_scores[own], language_candidates[own]
            highest = max(highest, index.highest(terms))
        return scores, candidates, highest

    def _rank_dense(self, query: str, k: int) -> list[Ranked]:
        vector = self._vector_of(query)
        return [] if vector is None else top_k(self._vector_index.chunk_ids, self._vector_index.scores(vector), k)

    def _vector_of(self, query: str) -> Vectors | None:
        """None where no passage has a vector, or the model sees nothing in the query: all passages would tie."""
        if not self._vector_index.chunk_ids:
            return None
        vector = self._query_vector(query)
        return vector if vector.any() else None

    def _rank_hybrid(self, query: str, k: int) -> list[Ranked]:
        depth = max(k, self._fusion.depth)
        branches = [self._rank_stem(query, depth), self._rank_dense(query, depth)]
        return reciprocal_rank_fusion(branches, self._fusion.c)[:k]

    def _rank_hybrid_cc(self, query: str, k: int) -> list[Ranked]:
        """Over all passages rather than the tops of the branches: no depth to choose. A branch without weight has no say."""
        index, weight, rows = self.stem_index, self._fusion.dense_weight, self._vector_rows
        dense, lexical = np.zeros(len(index.chunk_ids)), np.zeros(len(index.chunk_ids))
        candidates = np.zeros(len(index.chunk_ids), dtype=np.bool_)
        if weight < 1:
            scores, candidates, highest = self._stem_scores(query)
            lexical = share_of_highest(scores, highest)
        if weight > 0 and (vector := self._vector_of(query)) is not None:
            scores = self._vector_index.scores(vector).astype(np.float64)
            centred = centred_by_language(scores, index.languages[rows], self._fusion.language_centring)
            dense[rows] = min_max(centred)
            candidates[rows] = True
        return top_k(index.chunk_ids, convex_combination(dense, lexical, weight), k, candidates)

    def nearest_cosine(self, query: str, first: int | None = None) -> float | None:
        """The cosine of the nearest passage, by all values of the vectors or the first so many. It ranks no passage.

        None where no passage has a vector, or the query has no word.
        """
        cleaned = _clean(query)
        vector = self._vector_of(cleaned) if raw_tokens(cleaned) else None
        return None if vector is None else float(self._vector_index.cosines(vector, first).max())

    def nearness_of(self, query: str, texts: Sequence[str]) -> list[float]:
        """How near the query is to each of some texts, which are embedded as passages are. It ranks no passage."""
        vector = self._query_vector(_clean(query))
        return [float(score) for score in np.vecdot(self._model().embed_passages(texts), vector)]

    def warm_up(self) -> None:
        """Loads the embedding model, if there are vectors to compare a query with: the first dense query then finds it."""
        if self._vector_index.chunk_ids:
            self._model()

    def _embed_query(self, query: str) -> Vectors:
        return self._model().embed_query(query)

    def _model(self) -> Embedder:
        if self._embedder is None:
            self._embedder = self._load_embedder()
        return self._embedder


def _clean(query: str) -> str:
    """NFC, as the passages are; and without the half characters that undecodable bytes of a command line become."""
    return normalize("NFC", query.encode("utf-8", "replace").decode())


def _rows_of(some: Sequence[str], all_ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """Where each of some ids stands among all."""
    rows = {chunk_id: row for row, chunk_id in enumerate(all_ids)}
    return np.array([rows[chunk_id] for chunk_id in some], dtype=np.int64)


def passages_of(chunks: pa.Table) -> dict[str, Passage]:
    """The rows of `chunks` by their ids."""
    columns = [field.name for field in fields(Passage)]
    return {row["chunk_id"]: Passage(**row) for row in chunks.select(columns).to_pylist()}


def passage_texts(chunks: pa.Table) -> list[dict[str, Any]]:
    """chunk_id, language, heading and text of each passage, in the order of their ids: the order of every index."""
    rows: list[dict[str, Any]] = chunks.select(["chunk_id", "language", "heading", "text"]).to_pylist()
    return sorted(rows, key=lambda row: row["chunk_id"])
