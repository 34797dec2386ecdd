"""No result is longer than clients take, whatever is in the archive."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from librarian_pipeline.serving.mcp.fitting import first_that_fit, fit_hits, fit_text, size_of
from librarian_pipeline.serving.mcp.results import Hit, SearchResult
from librarian_pipeline.serving.mcp.text import hit_text, search_text
from librarian_pipeline.serving.mcp.tools import REMARKS
from librarian_pipeline.settings import ServingSettings

BUDGET = ServingSettings().max_result_bytes
TEXTS = st.lists(
    st.one_of(
        st.text(max_size=300), st.builds(lambda text, n: text * n, st.text(min_size=1, max_size=5), st.integers(1, 9_000))
    ),
    min_size=1,
    max_size=50,
)


def hit(rank: int, text: str) -> Hit:
    place = {"citation": "Ep. ep03 @ 1:08:03", "chunk_id": f"ep03:t{rank:03d}", "episode_id": "ep03", "layer": "transcript"}
    times = {"start_ms": 4_083_000, "end_ms": 4_143_000, "cited_ms": 4_083_000}
    more: dict[str, Any] = {"heading": None, "language": "cs", "text_cut": False, "link": None, "title": "t" * 200}
    return Hit.model_validate({**place, **times, **more, "text": text, "rank": rank, "score": 0.123456789012345678})


def forms(result: SearchResult) -> int:
    """Bytes of what a client gets of it."""
    structured = json.dumps(result.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":"))
    return len(structured.encode()) + len(search_text(result).encode())


@settings(max_examples=60)
@given(TEXTS)
def test_a_search_is_never_longer_than_the_budget_and_keeps_every_hit_at_its_rank(texts: list[str]) -> None:
    hits = [hit(rank, text) for rank, text in enumerate(texts, start=1)]
    empty = SearchResult(snapshot="0" * 16, warning="w" * 300, mode="hybrid_cc", hits=[])
    fitted = fit_hits(hits, BUDGET - size_of(empty, search_text) - REMARKS, hit_text)
    assert forms(empty.model_copy(update={"hits": fitted})) <= BUDGET
    assert [found.chunk_id for found in fitted] == [found.chunk_id for found in hits]
    for found, text in zip(fitted, texts, strict=True):
        assert found.text == text if not found.text_cut else text.startswith(found.text[:-1])


@pytest.mark.parametrize("character", ["a", "ř", "語", "\N{BREAD}", '"'])
def test_each_of_fifty_long_passages_keeps_something_and_the_first_one_most(character: str) -> None:
    fitted = fit_hits([hit(rank, character * 5_000) for rank in range(1, 51)], BUDGET, hit_text)
    lengths = [len(found.text) for found in fitted]
    assert min(lengths) > 20
    assert lengths[0] == max(lengths)
    assert all(found.text_cut for found in fitted)


def test_what_fits_is_not_cut() -> None:
    hits = [hit(rank, "A sentence of a passage. " * 20) for rank in range(1, 6)]
    assert fit_hits(hits, BUDGET, hit_text) == hits


@given(st.text(min_size=1), st.integers(900, 3_000))
def test_a_text_is_cut_to_the_longest_beginning_for_which_there_is_room(text: str, available: int) -> None:
    long = hit(1, text * 3_000)
    fitted = fit_text(long, available, hit_text)
    assert size_of(fitted, hit_text) <= available
    assert fitted.text_cut


def test_a_page_ends_before_the_first_item_that_would_be_too_much() -> None:
    hits = [hit(rank, "x" * 100) for rank in range(1, 10)]
    each = size_of(hits[0], hit_text)
    assert first_that_fit(hits, 3 * each, hit_text) == hits[:3]
    assert first_that_fit(hits, 3 * each - 1, hit_text) == hits[:2]
    assert first_that_fit(hits, each - 1, hit_text) == []
