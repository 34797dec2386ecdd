import gc
import weakref

from librarian_pipeline.retrieval.embedders.shelf import EmbedderShelf
from librarian_pipeline.settings import EmbeddingSettings
from librarian_pipeline_tests.retrieval.samples import HashedWordsStandIn

ONE, OTHER = EmbeddingSettings(model="char-ngram"), EmbeddingSettings(model="all-MiniLM-L6-v2")


def test_the_model_asked_for_last_stays_though_no_searcher_has_it_for_the_moment() -> None:
    loaded: list[EmbeddingSettings] = []
    shelf = EmbedderShelf(lambda model: (loaded.append(model), HashedWordsStandIn())[1])
    for _ in range(3):
        shelf.get(ONE)
        gc.collect()
    assert loaded == [ONE]


def test_a_model_that_no_searcher_has_any_more_goes_with_the_next_one() -> None:
    shelf = EmbedderShelf(lambda model: HashedWordsStandIn())
    gone = weakref.ref(shelf.get(ONE))
    shelf.get(OTHER)
    gc.collect()
    assert gone() is None


def test_a_model_that_a_searcher_still_has_is_not_loaded_again() -> None:
    shelf = EmbedderShelf(lambda model: HashedWordsStandIn())
    kept = shelf.get(ONE)
    shelf.get(OTHER)
    assert shelf.get(ONE) is kept
