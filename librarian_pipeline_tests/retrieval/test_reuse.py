"""Vectors are worked out once for each model and text, and what is kept can be damaged without harm."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from librarian_pipeline.retrieval.embedders.char_ngram import CharNgramEmbedder
from librarian_pipeline.retrieval.embedders.interface import OnProgress, Vectors
from librarian_pipeline.retrieval.reuse import DATABASE, EmbeddingCache, ReusingEmbedder

TEXTS = ["The mill by the river.", "An owl in the barn.", "The mill by the river."]


class Counting(CharNgramEmbedder):
    """Notes which texts it is given."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.asked: list[str] = []

    def embed_query(self, text: str) -> Vectors:
        self.asked.append(text)
        vector: Vectors = CharNgramEmbedder().embed_passages([text])[0]
        return vector

    def embed_passages(self, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
        self.given.extend(texts)
        return super().embed_passages(texts, on_progress)


def reusing(folder: Path, model: Counting, recipe: str = "a", *, reuse: bool = True) -> ReusingEmbedder:
    return ReusingEmbedder(recipe, lambda: model, EmbeddingCache(folder / DATABASE), reuse=reuse)


def test_a_text_is_embedded_once_even_by_a_later_process(tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    vectors = reusing(tmp_path, first).embed_passages(TEXTS)
    assert first.given == TEXTS[:2]
    again = reusing(tmp_path, second)
    assert np.array_equal(again.embed_passages([TEXTS[1], "A new text.", TEXTS[0]])[[2, 0]], vectors[:2])
    assert second.given == ["A new text."]
    assert (again.n_embedded, again.n_reused) == (1, 2)


def test_the_vectors_are_those_of_the_model(tmp_path: Path) -> None:
    expected = CharNgramEmbedder().embed_passages(TEXTS)
    assert np.array_equal(reusing(tmp_path, Counting()).embed_passages(TEXTS), expected)
    assert np.array_equal(reusing(tmp_path, Counting()).embed_passages(TEXTS), expected)


def test_another_models_vectors_are_not_taken(tmp_path: Path) -> None:
    reusing(tmp_path, Counting(), "a").embed_passages(TEXTS)
    other = Counting()
    reusing(tmp_path, other, "b").embed_passages(TEXTS)
    assert other.given == TEXTS[:2]


def test_without_reuse_every_text_is_embedded_anew(tmp_path: Path) -> None:
    reusing(tmp_path, Counting()).embed_passages(TEXTS)
    model = Counting()
    reusing(tmp_path, model, reuse=False).embed_passages(TEXTS)
    assert model.given == TEXTS[:2]


def test_where_all_is_known_no_model_is_loaded(tmp_path: Path) -> None:
    reusing(tmp_path, Counting()).embed_passages(TEXTS)

    def load() -> Counting:
        raise AssertionError("no model is needed")

    embedder = ReusingEmbedder("a", load, EmbeddingCache(tmp_path / DATABASE))
    assert embedder.embed_passages(TEXTS).shape == (3, CharNgramEmbedder.dimensions)
    assert embedder.count_tokens(TEXTS[0]) is None


def overwrite_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096 : len(content)] = b"x" * (len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [overwrite_pages, lambda path: path.write_bytes(b"no database at all" * 100)])
def test_a_damaged_cache_is_put_aside_and_made_anew(tmp_path: Path, damage: object) -> None:
    vectors = reusing(tmp_path, Counting()).embed_passages(TEXTS)
    path = tmp_path / DATABASE
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    damage(path)  # type: ignore[operator]
    assert np.array_equal(reusing(tmp_path, Counting()).embed_passages(TEXTS), vectors)
    assert path.with_name(f"{DATABASE}.damaged").exists()
    model = Counting()
    reusing(tmp_path, model).embed_passages(TEXTS)
    assert model.given == []


def test_a_vector_of_another_length_is_worked_out_again(tmp_path: Path) -> None:
    vectors = reusing(tmp_path, Counting()).embed_passages(TEXTS)
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("UPDATE vectors SET vector = x'00'")
    connection.close()
    assert np.array_equal(reusing(tmp_path, Counting()).embed_passages(TEXTS), vectors)


def test_a_query_is_embedded_once_and_is_no_passage(tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    vector = reusing(tmp_path, first).embed_query(TEXTS[0])
    assert np.array_equal(reusing(tmp_path, second).embed_query(TEXTS[0]), vector)
    assert (first.asked, second.asked) == ([TEXTS[0]], [])
    reusing(tmp_path, second).embed_passages(TEXTS[:1])
    assert second.given == TEXTS[:1]


def test_another_query_prompt_is_another_vector(tmp_path: Path) -> None:
    model = Counting()
    cache = EmbeddingCache(tmp_path / DATABASE)
    for prompt in ("a", "b"):
        ReusingEmbedder("recipe", lambda: model, cache, query_recipe=prompt).embed_query(TEXTS[0])
    assert model.asked == [TEXTS[0]] * 2
