"""A fallback for machines without any model weights: hashed character n-grams.

It sees spelling, not meaning. Wherever its figures appear, they are labelled as a fallback's.
"""

import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from librarian_pipeline.retrieval.embedders.interface import OnProgress, Vectors, unit_rows
from librarian_pipeline.text.tokens import raw_tokens

N_GRAM_LENGTHS = (3, 4)


class CharNgramEmbedder:
    """Signed feature hashing (Weinberger et al., ICML 2009) of the n-grams inside words, with log-scaled counts."""

    dimensions = 512
    max_tokens: int | None = None

    def embed_passages(self, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            for ngram, count in Counter(_ngrams(text)).items():
                hashed = zlib.crc32(ngram.encode())
                sign = 1 if hashed & 1 else -1
                vectors[row, (hashed >> 1) % self.dimensions] += sign * np.log1p(count)
            if on_progress:
                on_progress(row + 1, len(texts))
        return unit_rows(vectors)

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed_passages([text])[0]
        return vector

    def count_tokens(self, passage: str) -> int | None:
        return None


def _ngrams(text: str) -> list[str]:
    return [
        padded[start : start + length]
        for word in raw_tokens(_without_marks(text))
        for padded in [f"<{word}>"]
        for length in N_GRAM_LENGTHS
        for start in range(max(1, len(padded) - length + 1))
    ]


def _without_marks(text: str) -> str:
    """Letters without their diacritics, so that `město` and `mesto` share their n-grams."""
    return "".join(char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char))
