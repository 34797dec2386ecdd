"""Servers turn queries into terms in several threads at a time."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from librarian_pipeline.text.lemmas import Normalizer

WORDS = [
    f"{stem}{ending}" for stem in ("connect", "nation", "relat", "hop", "walk") for ending in ("ing", "ational", "ed", "s")
]


@pytest.fixture
def _switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_switching_often")
@pytest.mark.parametrize("name", ["simplemma", "snowball"])
def test_terms_are_the_same_in_many_threads_as_in_one(name: str) -> None:
    expected = [Normalizer(name).terms(word, "en") for word in WORDS]

    def terms(_: int) -> list[list[str]]:
        return [Normalizer(name).terms(word, "en") for word in WORDS]  # a new one: it has nothing in its memory

    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(terms, range(40)))
