"""What the rest of the pipeline knows of an embedding model."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

OnProgress = Callable[[int, int], None]
"""Told how many texts are done, and of how many."""

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Texts to vectors of `dimensions` float32 values, whose inner product says how near two texts are: cosines, where they
    are unit vectors, as all but the joint model's are.
    """

    dimensions: int
    max_tokens: int | None
    """What the model reads of a passage: the rest is cut off. None if it reads any length."""

    def embed_passages(self, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
        """Shape (len(texts), dimensions)."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Shape (dimensions,)."""
        ...

    def count_tokens(self, passage: str) -> int | None:
        """How many tokens the model makes of a passage, prompt and marks among them; None if it doesn't count any."""
        ...


def batches(texts: Sequence[str], size: int) -> list[Sequence[str]]:
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def unit_rows(vectors: Vectors) -> Vectors:
    """Each row divided by its length; zero rows stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)
