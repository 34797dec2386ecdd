import numpy as np
import pytest

from librarian_pipeline.azure.failures import ServiceError
from librarian_pipeline.azure.searching import AZURE_MODES, AzureSearcher
from librarian_pipeline.azure.stack import AzureStack
from librarian_pipeline.errors import UsageError
from librarian_pipeline.retrieval.fusion import reciprocal_rank_fusion
from librarian_pipeline.retrieval.modes import MAX_K
from librarian_pipeline.retrieval.ranking import Ranked
from librarian_pipeline_tests.azure.fake_service import NAME, FakeService

PUBLISHED_SCORE = 0.03279569745
"""Of a passage that is first in one ranking and third in the other, in an answer that the service's maker published."""
RANKS_FROM_0 = 60 - 1
"""Our ranks begin at 1: with this c, the first has the share of one that is counted from 0 with c = 60."""


@pytest.fixture
def searcher(stack: AzureStack) -> AzureSearcher:
    stack.update(lambda found: None)
    return stack.searcher()


def test_local_fusion_with_ranks_from_0_gives_the_published_score() -> None:
    words = [Ranked(name, 0.0) for name in ("wanted", "b", "c")]
    vectors = [Ranked(name, 0.0) for name in ("x", "y", "wanted")]
    first = reciprocal_rank_fusion([words, vectors], RANKS_FROM_0)[0]
    assert first.chunk_id == "wanted"
    assert first.score == pytest.approx(1 / 60 + 1 / 62, abs=1e-15)
    # The service adds in single precision.
    assert np.float32(first.score) == np.float32(PUBLISHED_SCORE)


def test_with_ranks_from_1_it_does_not() -> None:
    words, vectors = [Ranked("wanted", 0.0)], [Ranked(name, 0.0) for name in ("x", "y", "wanted")]
    found = {one.chunk_id: one.score for one in reciprocal_rank_fusion([words, vectors], 60)}
    assert np.float32(found["wanted"]) != np.float32(PUBLISHED_SCORE)


@pytest.mark.parametrize("mode", AZURE_MODES)
def test_hits_are_ranked_from_one_with_scores_that_never_rise(searcher: AzureSearcher, mode: str) -> None:
    hits = searcher.search("the owl and the mouse under the snow", mode, 4)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert 1 <= len(hits) <= 4
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_the_hybrid_mode_is_the_one_that_is_searched_unless_another_is_named(searcher: AzureSearcher) -> None:
    assert searcher.search("salt") == searcher.search("salt", "azure_hybrid")


@pytest.mark.parametrize(
    ("query", "mode", "k", "told"),
    [
        (" \n", "azure_bm25", 5, "blank"),
        ("salt", "hybrid", 5, "no mode 'hybrid'"),
        ("salt", "azure_bm25", 0, "k = 0"),
        ("salt", "azure_vector", MAX_K + 1, "out of range"),
        ("a " * 1_001, "azure_hybrid", 5, "1001 words"),
    ],
)
def test_wrong_use_is_refused_before_anything_is_sent(
    searcher: AzureSearcher, service: FakeService, query: str, mode: str, k: int, told: str
) -> None:
    before = len(service.requests)
    with pytest.raises(UsageError, match=told):
        searcher.search(query, mode, k)
    assert len(service.requests) == before


def test_a_query_is_embedded_once_for_the_modes_that_need_its_vector(searcher: AzureSearcher, service: FakeService) -> None:
    before = len(service.of("embed"))
    for mode in AZURE_MODES:
        searcher.search("salt", mode)
    assert len(service.of("embed")) == before + 1


def test_both_unicode_forms_of_a_query_are_the_same(searcher: AzureSearcher) -> None:
    composed = searcher.search("Mlyn\u00e1\u0159", "azure_bm25")
    assert composed
    assert searcher.search("Mlyna\u0301r\u030c", "azure_bm25") == composed


def test_bytes_that_were_no_text_do_not_break_a_search(searcher: AzureSearcher) -> None:
    assert searcher.search("salt \udcff", "azure_bm25")


def test_a_document_that_is_no_passage_is_told(searcher: AzureSearcher, service: FakeService) -> None:
    service.documents["p" + "A" * 8] = {"key": "p" + "A" * 8, "text_en": "salt", "digest": "x"}
    with pytest.raises(ServiceError, match=f"index '{NAME}' has a document that is no passage"):
        searcher.search("salt", "azure_bm25")
