"""The three modes on Azure, behind the signature of `retrieval.modes.Searcher.search`.

`azure_bm25` ranks by words, `azure_vector` by vectors, each compared with each (`exhaustive`), and `azure_hybrid` lets the
service fuse both: reciprocal rank fusion with c = 60 and ranks from 0, which is ours with c = 59.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from unicodedata import normalize

from azure.search.documents import SearchClient
from azure.search.documents.models import VectorizedQuery

from librarian_pipeline.azure.account import Account
from librarian_pipeline.azure.documents import chunk_id_of
from librarian_pipeline.azure.embedding import AzureEmbedder
from librarian_pipeline.azure.failures import ServiceError, explaining
from librarian_pipeline.azure.index_definition import KEY, VECTOR
from librarian_pipeline.azure.literal import MAX_WORDS, has_words, literal
from librarian_pipeline.errors import UsageError
from librarian_pipeline.retrieval.modes import MAX_K, Hit, Passage

AZURE_MODES = ("azure_bm25", "azure_vector", "azure_hybrid")
BEST_KNOWN = "azure_hybrid"
"""What is judged by the gates as the default mode is."""


class AzureSearcher:
    """`passages` are those of the archive by their ids; `depth` is how many the branches of the hybrid give at least."""

    def __init__(
        self,
        account: Account,
        client: SearchClient,
        embedder: AzureEmbedder,
        text_fields: list[str],
        passages: Mapping[str, Passage],
        depth: int,
    ) -> None:
        self._account = account
        self._client = client
        self._embedder = embedder
        self._text_fields = text_fields
        self._passages = passages
        self._depth = depth
        # The vector and the hybrid mode embed the same query one after the other.
        self._vector_of = lru_cache(maxsize=1024)(self._embedded)

    def search(self, query: str, mode: str | None = None, k: int = 5) -> list[Hit]:
        """The `k` best passages for a query, best first, by default in the hybrid mode.

        Raises `UsageError` for a blank or too long query, an unknown mode, or a `k` outside 1 to `MAX_K`; `ServiceError` if
        a service fails, or the index holds what the archive doesn't.
        """
        mode = BEST_KNOWN if mode is None else mode
        query = normalize("NFC", query.encode("utf-8", "replace").decode())
        if not query.strip():
            raise UsageError("the query is blank", "ask for something")
        if mode not in AZURE_MODES:
            raise UsageError(f"there is no mode {mode!r}", f"use one of: {', '.join(AZURE_MODES)}")
        if not 1 <= k <= MAX_K:
            raise UsageError(f"k = {k} is out of range", f"use 1 to {MAX_K}")
        if len(query.split()) > MAX_WORDS:
            raise UsageError(f"the query has {len(query.split())} words", f"the service takes {MAX_WORDS}")
        words = mode != "azure_vector" and has_words(query)
        if mode == "azure_bm25" and not words:
            return []
        options = self._by_words(query) if words else {}
        if mode != "azure_bm25":
            options["vector_queries"] = [self._by_vector(query, k)]
        with explaining(self._account, "searching"):
            found = [(hit[KEY], hit["@search.score"]) for hit in self._client.search(select=[KEY], top=k, **options)]
        return [Hit(rank, float(score), self._passage(key)) for rank, (key, score) in enumerate(found[:k], start=1)]

    def _by_words(self, query: str) -> dict[str, Any]:
        return {
            "search_text": literal(query),
            "query_type": "simple",
            "search_mode": "any",
            "search_fields": self._text_fields,
            # The same statistics whichever part of the index answers.
            "scoring_statistics": "global",
        }

    def _by_vector(self, query: str, k: int) -> VectorizedQuery:
        near = max(k, self._depth)
        return VectorizedQuery(vector=self._vector_of(query), k_nearest_neighbors=near, fields=VECTOR, exhaustive=True)

    def _embedded(self, query: str) -> list[float]:
        vector: list[float] = self._embedder.embed([query])[0].astype(float).tolist()
        return vector

    def _passage(self, key: str) -> Passage:
        try:
            return self._passages[chunk_id_of(key)]
        except (ValueError, KeyError):
            raise ServiceError(
                f"the index {self._account.index!r} has a document that is no passage of the archive", "bring it up to date"
            ) from None
