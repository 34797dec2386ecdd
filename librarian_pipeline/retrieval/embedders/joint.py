"""Two models as one: a multilingual one for every text, and beside it an English one for English texts.

A small English model ranks English paraphrases better than a small multilingual one, and makes nothing of other languages.
The vectors of both stand one behind the other, scaled so that the inner product of two texts is a weighted sum of cosines:
of both models where both texts are English, of the multilingual one alone where one of them isn't. So all passages stay in
one index, and a question in either language can be held against each of them.
"""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from librarian_pipeline.retrieval.embedders.interface import Embedder, OnProgress, Vectors

MULTILINGUAL_WEIGHT = 0.5
"""Of the multilingual model's cosine in the sum."""
LEAST_ENGLISH = 0.75
"""The share of a text's words that an English dictionary knows, from which on the text counts as English."""
MULTILINGUAL_VALUES = 384
"""A vector's first values, which are the multilingual model's: their cosines, unlike those of all values, can be compared
between questions in different languages.
"""
LIBRARIES = ("simplemma",)
"""What else than the models decides on a vector."""


class JointEmbedder:
    """Vectors of the multilingual model's dimensions, followed by those of the English one.

    An English text's vector has length 1. Without its English part, another text's is shorter: what counts between two
    texts is the inner product.
    """

    def __init__(self, multilingual: Embedder, english: Embedder) -> None:
        self._multilingual = multilingual
        self._english = english
        self.dimensions = multilingual.dimensions + english.dimensions
        self.max_tokens = multilingual.max_tokens

    def embed_passages(self, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
        return self._joined(
            texts,
            self._multilingual.embed_passages(texts, on_progress),
            lambda english: self._english.embed_passages(english),
        )

    def embed_query(self, text: str) -> Vectors:
        joined = self._joined(
            [text],
            self._multilingual.embed_query(text)[np.newaxis],
            lambda english: np.vstack([self._english.embed_query(one) for one in english]),
        )
        vector: Vectors = joined[0]
        return vector

    def count_tokens(self, passage: str) -> int | None:
        """In tokens of the multilingual model. Where the English one cuts off more, as many as if both cut off the same."""
        count, limit = self._multilingual.count_tokens(passage), self.max_tokens
        if count is None or limit is None or not is_english(passage):
            return count
        english_count, english_limit = self._english.count_tokens(passage), self._english.max_tokens
        if english_count is None or english_limit is None:
            return count
        return max(count, -(-english_count * limit // english_limit))

    def _joined(
        self, texts: Sequence[str], multilingual: Vectors, embed_english: Callable[[Sequence[str]], Vectors]
    ) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        vectors[:, : self._multilingual.dimensions] = np.sqrt(np.float32(MULTILINGUAL_WEIGHT)) * multilingual
        rows = [row for row, text in enumerate(texts) if is_english(text)]
        if rows:
            english = embed_english([texts[row] for row in rows])
            vectors[rows, self._multilingual.dimensions :] = np.sqrt(np.float32(1 - MULTILINGUAL_WEIGHT)) * english
        return vectors


def digest(of_models: Sequence[str]) -> str:
    """One digest for the weights of both models and what joins them."""
    return hashlib.sha256(f"{[*of_models]} {MULTILINGUAL_WEIGHT} {LEAST_ENGLISH}".encode()).hexdigest()


def is_english(text: str) -> bool:
    """By its words, since guesses by letters need more of them than a question has."""
    from simplemma import in_target_language

    return bool(in_target_language(text, lang="en") >= LEAST_ENGLISH)
