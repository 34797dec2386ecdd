from collections.abc import Callable

import pytest

from librarian_pipeline.evaluation.judging import JudgedQuery

Judged = Callable[..., JudgedQuery]


@pytest.fixture(scope="session")
def judged() -> Judged:
    """Makes a judged query of an id and, for each span, the passages that hit it; `starts` are those of transcript spans."""

    def make(
        query_id: str,
        *hits: set[str],
        language: str = "en",
        kind: str = "paraphrase",
        split: str = "dev",
        starts: tuple[tuple[str, int], ...] = (),
    ) -> JudgedQuery:
        return JudgedQuery(query_id, f"What of {query_id}?", language, kind, split, tuple(map(frozenset, hits)), (), starts)

    return make
