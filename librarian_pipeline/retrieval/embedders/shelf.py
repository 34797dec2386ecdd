"""Embedding models that several searchers share, each loaded once."""

import threading
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

from librarian_pipeline.retrieval.embedders.interface import Embedder, OnProgress, Vectors
from librarian_pipeline.settings import EmbeddingSettings


class EmbedderShelf:
    """`load` is called when a model is first asked for, by one thread while the others wait.

    The model that was asked for last stays; another one as long as some searcher has it, so that a server that goes from
    model to model doesn't gather them.
    """

    def __init__(self, load: Callable[[EmbeddingSettings], Embedder]) -> None:
        self._load = load
        self._in_use: WeakValueDictionary[EmbeddingSettings, _OneAtATime] = WeakValueDictionary()
        self._last: _OneAtATime | None = None
        self._lock = threading.Lock()

    def get(self, model: EmbeddingSettings) -> Embedder:
        """Raises `ModelNotFoundError` where its weights are not there; then the next who asks tries again."""
        with self._lock:
            found = self._in_use.get(model) or _OneAtATime(self._load(model))
            self._in_use[model] = self._last = found
            return found


class _OneAtATime:
    """The models promise nothing to threads; their matrix products use all processors already."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._lock = threading.Lock()
        self.dimensions = embedder.dimensions
        self.max_tokens = embedder.max_tokens

    def embed_passages(self, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
        with self._lock:
            return self._embedder.embed_passages(texts, on_progress)

    def embed_query(self, text: str) -> Vectors:
        with self._lock:
            return self._embedder.embed_query(text)

    def count_tokens(self, passage: str) -> int | None:
        with self._lock:
            return self._embedder.count_tokens(passage)
