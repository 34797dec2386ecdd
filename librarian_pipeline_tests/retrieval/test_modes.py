import unicodedata
from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from librarian_pipeline.errors import UsageError
from librarian_pipeline.retrieval.embedders.interface import OnProgress, Vectors, unit_rows
from librarian_pipeline.retrieval.fusion import reciprocal_rank_fusion
from librarian_pipeline.retrieval.indexing import embed_passages
from librarian_pipeline.retrieval.modes import MAX_K, MODES, Hit, Searcher
from librarian_pipeline.retrieval.ranking import Ranked
from librarian_pipeline.settings import FusionSettings
from librarian_pipeline_tests.retrieval.samples import HashedWordsStandIn, chunks_of, passage, searcher_over

CHUNKS = chunks_of(
    passage("ep01:n000", "The lighthouse keeper polished the lamps every evening.", heading="Lamps"),
    passage("ep01:n001", "Boats left the harbours before the storms came."),
    passage("ep01:n002", "A baker explains why rye bread needs a sourdough starter."),
    passage("ep02:n000", "V Brně opravují staré tramvaje ve velké dílně.", "cs"),
    passage("ep02:n001", "Babička pekla koláče s mákem a švestkami.", "cs"),
    passage("ep02:n002", "Data o počasí se sbírají na horských stanicích.", "cs"),
    passage("ep02:n003", "Lighthouse Brno je i jméno malé kavárny.", "cs"),
)
QUERIES = ["lighthouse lamps", "storm in the harbour", "stará tramvaj v Brně", "počasí", "bread", "xyzzy"]


@pytest.fixture(scope="module")
def searcher() -> Searcher:
    return searcher_over(CHUNKS)


def ids(hits: list[Hit]) -> list[str]:
    return [hit.passage.chunk_id for hit in hits]


def ranked(hits: list[Hit]) -> list[Ranked]:
    return [Ranked(hit.passage.chunk_id, hit.score) for hit in hits]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_finds_the_passage_with_the_words_of_the_query(searcher: Searcher, mode: str) -> None:
    assert ids(searcher.search("rye bread sourdough", mode))[0] == "ep01:n002"


@pytest.mark.parametrize("mode", MODES)
def test_hits_are_ranked_from_one_with_scores_that_never_rise(searcher: Searcher, mode: str) -> None:
    hits = searcher.search("lighthouse lamps in the storms", mode)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_hit_carries_its_passage(searcher: Searcher) -> None:
    (hit,) = searcher.search("polished", "bm25_raw")
    expected = ("ep01", "notes", "Lamps", "en", None)
    found = hit.passage
    assert (found.episode_id, found.layer, found.heading, found.language, found.start_ms) == expected


@pytest.mark.parametrize("mode", ["bm25_raw", "bm25_stem"])
def test_the_heading_of_a_passage_is_searched(mode: str) -> None:
    searcher = searcher_over(chunks_of(passage("a:n000", "Nothing else.", heading="Zeppelins"), passage("a:n001", "Other.")))
    assert ids(searcher.search("zeppelins", mode)) == ["a:n000"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", QUERIES)
def test_fewer_hits_are_the_beginning_of_more(searcher: Searcher, query: str, mode: str) -> None:
    assert ranked(searcher.search(query, mode, 2)) == ranked(searcher.search(query, mode, 7))[:2]


@pytest.mark.parametrize("mode", MODES)
def test_the_order_of_the_passages_table_does_not_matter(searcher: Searcher, mode: str) -> None:
    mixed = searcher_over(CHUNKS.take(np.random.default_rng(3).permutation(CHUNKS.num_rows)))
    assert [ranked(mixed.search(query, mode)) for query in QUERIES] == [
        ranked(searcher.search(query, mode)) for query in QUERIES
    ]


@pytest.mark.parametrize("mode", MODES)
def test_without_a_mode_the_default_one_is_searched(mode: str) -> None:
    searcher = searcher_over(CHUNKS, default_mode=mode)
    assert searcher.search("lighthouse lamps") == searcher.search("lighthouse lamps", mode)


# Hybrid


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("fusion", [FusionSettings(), FusionSettings(c=1, depth=2)], ids=["default", "shallow"])
def test_hybrid_is_the_fusion_of_lemmas_and_vectors_at_the_depth(fusion: FusionSettings, query: str) -> None:
    searcher = searcher_over(CHUNKS, fusion=fusion)
    branches = [ranked(searcher.search(query, mode, fusion.depth)) for mode in ("bm25_stem", "dense")]
    assert ranked(searcher.search(query, "hybrid", 2)) == reciprocal_rank_fusion(branches, fusion.c)[:2]


def test_more_hits_than_the_depth_deepen_the_fusion() -> None:
    searcher = searcher_over(CHUNKS, fusion=FusionSettings(depth=1))
    assert len(searcher.search("lighthouse", "hybrid", 7)) == 7


# Convex combination


def hybrid_cc(query: str, dense_weight: float) -> list[Hit]:
    fusion = FusionSettings(dense_weight=dense_weight, language_centring=0)
    return searcher_over(CHUNKS, fusion=fusion).search(query, "hybrid_cc", MAX_K)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("weight", "branch"), [(0, "bm25_stem"), (1, "dense")])
def test_all_weight_on_one_branch_is_its_ranking(searcher: Searcher, query: str, weight: float, branch: str) -> None:
    assert ids(hybrid_cc(query, weight)) == ids(searcher.search(query, branch, MAX_K))


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("weight", [0.25, 0.5, 0.75])
def test_hybrid_cc_combines_the_normalised_scores_of_all_passages(searcher: Searcher, query: str, weight: float) -> None:
    def scores(branch: str) -> dict[str, float]:
        return dict(ranked(searcher.search(query, branch, MAX_K)))

    cosines, words = scores("dense"), scores("bm25_stem")
    highest = max(searcher.stem_index.highest(searcher.normalizer.terms(query, language)) for language in ("cs", "en"))
    low, high = min(cosines.values()), max(cosines.values())
    expected = {
        name: weight * ((cosine - low) / (high - low) if high > low else 0) + (1 - weight) * words.get(name, 0) / highest
        for name, cosine in cosines.items()
    }
    assert dict(ranked(hybrid_cc(query, weight))) == pytest.approx(expected)


class LikesCzech(HashedWordsStandIn):
    """A Czech query is near to all Czech passages, whatever they say."""

    def embed_passages(self, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
        words = super().embed_passages(texts)
        czech = np.array([[3.0 if "ř" in text else 0.0] for text in texts], dtype=np.float32)
        return unit_rows(np.hstack([words[:, :-1], czech]))


@pytest.mark.parametrize(("centring", "found"), [(0, "cs"), (1, "en")])
def test_centring_lets_the_passage_in_another_language_rise(centring: float, found: str) -> None:
    czech = [passage(f"cs:n{number:03d}", f"Přístav číslo {number} spí.", "cs") for number in range(100)]
    english = [passage(f"en:n{number:03d}", f"Nothing at all happens {number} times.") for number in range(100)]
    target = passage("en:n100", "The tram of Brno rolls out.")
    fusion = FusionSettings(dense_weight=1, language_centring=centring)
    searcher = searcher_over(chunks_of(*czech, *english, target), LikesCzech(), fusion)
    (best, *_) = searcher.search("příjezd tram Brno", "hybrid_cc")
    assert best.passage.language == found


def test_passages_without_a_vector_are_found_by_their_words() -> None:
    vectors = embed_passages(CHUNKS, HashedWordsStandIn(), "stand-in").filter(pc.field("chunk_id") != "ep01:n002")
    searcher = searcher_over(CHUNKS, vectors=vectors, fusion=FusionSettings(dense_weight=0.1))
    assert ids(searcher.search("rye bread sourdough", "hybrid_cc"))[0] == "ep01:n002"


def test_the_vectors_go_to_their_own_passages_where_some_have_none() -> None:
    vectors = embed_passages(CHUNKS, HashedWordsStandIn(), "stand-in").filter(pc.field("chunk_id") != "ep01:n000")
    searcher = searcher_over(CHUNKS, vectors=vectors, fusion=FusionSettings(dense_weight=1, language_centring=0))
    assert ids(searcher.search("sourdough bread", "hybrid_cc")) == ids(searcher.search("sourdough bread", "dense"))


def test_equal_passages_tie_and_stand_by_their_ids() -> None:
    twins = chunks_of(passage("b:n000", "Rye bread."), passage("a:n000", "Rye bread."), passage("c:n000", "Other words."))
    first, second, _ = searcher_over(twins).search("bread", "hybrid_cc")
    assert (first.passage.chunk_id, second.passage.chunk_id, first.score) == ("a:n000", "b:n000", second.score)


# Words and languages


def test_an_inflected_czech_query_finds_another_form(searcher: Searcher) -> None:
    assert ids(searcher.search("koláčům", "bm25_stem")) == ["ep02:n001"]


def test_raw_words_do_not_find_another_form(searcher: Searcher) -> None:
    assert searcher.search("koláčům", "bm25_raw") == []


def test_an_inflected_english_query_finds_another_form(searcher: Searcher) -> None:
    assert ids(searcher.search("harbour", "bm25_stem")) == ["ep01:n001"]


def test_one_query_is_normalised_for_each_language_of_the_passages(searcher: Searcher) -> None:
    assert set(ids(searcher.search("storm Brna", "bm25_stem"))) == {"ep01:n001", "ep02:n000", "ep02:n003"}


def test_a_word_is_not_normalised_by_the_rules_of_another_language() -> None:
    searcher = searcher_over(chunks_of(passage("a:n000", "mice", "cs"), passage("a:n001", "mice", "en")))
    assert ids(searcher.search("mouse", "bm25_stem")) == ["a:n001"]


def test_passages_of_an_unknown_language_are_found_by_the_word_as_it_is() -> None:
    searcher = searcher_over(chunks_of(passage("a:n000", "Zorblaxes everywhere", "und"), passage("a:n001", "Other", "en")))
    assert ids(searcher.search("ZORBLAXES", "bm25_stem")) == ["a:n000"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", ["počasí na horách", "koláče babička", "Brně tramvaje dílně"])
def test_a_decomposed_query_has_the_hits_of_the_composed_one(searcher: Searcher, query: str, mode: str) -> None:
    decomposed = unicodedata.normalize("NFD", query)
    assert searcher.search(decomposed, mode) == searcher.search(unicodedata.normalize("NFC", query), mode)


def test_the_model_is_given_the_composed_query() -> None:
    stand_in = HashedWordsStandIn()
    searcher_over(CHUNKS, stand_in).search(unicodedata.normalize("NFD", "počasí"), "dense")
    assert stand_in.queries == [unicodedata.normalize("NFC", "počasí")]


def test_the_model_is_given_nothing_that_cannot_be_encoded() -> None:
    stand_in = HashedWordsStandIn()
    searcher_over(CHUNKS, stand_in).search("caf\udce9 lamps", "dense")
    assert stand_in.queries == ["caf? lamps"]


# Queries that are wrong, odd or empty


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", ["", "   ", "\n\t", "\u00a0"])
def test_a_blank_query_is_refused(searcher: Searcher, query: str, mode: str) -> None:
    with pytest.raises(UsageError, match="blank"):
        searcher.search(query, mode)


@pytest.mark.parametrize("mode", ["", "bm25", "HYBRID", "_rank_raw"])
def test_an_unknown_mode_is_refused_with_the_known_ones(searcher: Searcher, mode: str) -> None:
    with pytest.raises(UsageError, match=", ".join(MODES)):
        searcher.search("lamps", mode)


@pytest.mark.parametrize("k", [0, -1, MAX_K + 1])
def test_a_number_of_hits_out_of_range_is_refused(searcher: Searcher, k: int) -> None:
    with pytest.raises(UsageError, match="out of range"):
        searcher.search("lamps", k=k)


@pytest.mark.parametrize("mode", MODES)
def test_more_hits_than_passages_gives_each_passage_at_most_once(searcher: Searcher, mode: str) -> None:
    found = ids(searcher.search("the lighthouse", mode, MAX_K))
    assert len(found) == len(set(found)) <= CHUNKS.num_rows


@pytest.mark.parametrize("mode", ["bm25_raw", "bm25_stem"])
@pytest.mark.parametrize("query", ["???", "🎧🎙️", "…", "xyzzy", "_"])
def test_a_query_without_a_known_word_has_no_hits_among_words(searcher: Searcher, query: str, mode: str) -> None:
    assert searcher.search(query, mode) == []


class SeesAnything(HashedWordsStandIn):
    """As neural models do: no text is without a vector."""

    def embed_query(self, text: str) -> Vectors:
        return unit_rows(np.ones((1, self.dimensions), dtype=np.float32))[0]


@pytest.mark.parametrize("query", ["???", "🎧🎙️", "…", "_", "\u0301"])
def test_signs_without_a_word_have_no_hits_whatever_the_model_sees_in_them(query: str) -> None:
    searcher = searcher_over(CHUNKS, SeesAnything())
    assert [searcher.search(query, mode) for mode in MODES] == [[]] * len(MODES)


class SeesNothing(HashedWordsStandIn):
    def embed_query(self, text: str) -> Vectors:
        return np.zeros(self.dimensions, dtype=np.float32)


@pytest.mark.parametrize("mode", ["dense", "hybrid", "hybrid_cc"])
def test_where_the_model_sees_nothing_in_a_query_no_passage_is_favoured(mode: str) -> None:
    assert searcher_over(CHUNKS, SeesNothing()).search("xyzzy", mode) == []


@pytest.mark.parametrize("query", QUERIES[:5])
def test_the_nearest_cosine_is_the_score_of_the_first_dense_hit_among_unit_vectors(searcher: Searcher, query: str) -> None:
    assert searcher.nearest_cosine(query) == pytest.approx(searcher.search(query, "dense", 1)[0].score, abs=1e-6)


class Doubled(HashedWordsStandIn):
    """Says the words in the first half of its values, and the same of every text in the second."""

    dimensions = 128

    def embed_passages(self, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
        words = HashedWordsStandIn().embed_passages(texts)
        return np.hstack([words, np.ones_like(words)])


def test_the_nearest_cosine_by_the_first_values_takes_no_account_of_the_others(searcher: Searcher) -> None:
    doubled, first = searcher_over(CHUNKS, Doubled()), HashedWordsStandIn.dimensions
    assert doubled.nearest_cosine("bread", first) == pytest.approx(searcher.nearest_cosine("bread"), abs=1e-6)
    assert doubled.nearest_cosine("bread") != pytest.approx(searcher.nearest_cosine("bread"), abs=1e-2)


@pytest.mark.parametrize("query", ["???", "🎧🎙️", "…"])
def test_signs_without_a_word_are_near_to_nothing(query: str) -> None:
    assert searcher_over(CHUNKS, SeesAnything()).nearest_cosine(query) is None


def test_in_an_empty_index_nothing_is_near() -> None:
    assert searcher_over(chunks_of()).nearest_cosine("lighthouse") is None


@pytest.mark.parametrize("query", ["the and of", "a v na", "the"])
def test_stopwords_alone_are_a_query_like_any_other(searcher: Searcher, query: str) -> None:
    assert all(isinstance(searcher.search(query, mode), list) for mode in MODES)


@settings(deadline=None, max_examples=150)
@given(st.text(min_size=1, max_size=40).filter(str.strip), st.sampled_from(MODES))
def test_any_text_can_be_asked(query: str, mode: str) -> None:
    assert len(ANY_TEXT.search(query, mode)) <= 5


ANY_TEXT = searcher_over(CHUNKS)


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_index_has_no_hits(mode: str) -> None:
    assert searcher_over(chunks_of()).search("lighthouse", mode) == []


@pytest.mark.parametrize("mode", ["bm25_raw", "bm25_stem"])
def test_passages_without_a_word_have_no_hits(mode: str) -> None:
    assert searcher_over(chunks_of(passage("a:n000", ""), passage("a:n001", "…"))).search("lighthouse", mode) == []


# The model


class Loader:
    def __init__(self) -> None:
        self.embedder = HashedWordsStandIn()
        self.loads = 0

    def __call__(self) -> HashedWordsStandIn:
        self.loads += 1
        return self.embedder


@pytest.fixture
def loader() -> Loader:
    return Loader()


def loads_after(searcher: Searcher, loader: Loader, *searches: tuple[str, str]) -> int:
    for query, mode in searches:
        searcher.search(query, mode)
    return loader.loads


def test_words_need_no_model(loader: Loader) -> None:
    assert loads_after(searcher_over(CHUNKS, load=loader), loader, ("lamps", "bm25_raw"), ("lamps", "bm25_stem")) == 0


@pytest.mark.parametrize("mode", ["dense", "hybrid", "hybrid_cc"])
def test_the_model_is_loaded_by_the_first_query_that_needs_it_and_kept(loader: Loader, mode: str) -> None:
    assert loads_after(searcher_over(CHUNKS, load=loader), loader, ("lamps", mode), ("storms", mode)) == 1


def test_an_empty_index_needs_no_model(loader: Loader) -> None:
    assert loads_after(searcher_over(chunks_of(), load=loader), loader, *(("lamps", mode) for mode in MODES)) == 0


def test_a_query_is_embedded_once_for_all_modes(loader: Loader) -> None:
    searcher = searcher_over(CHUNKS, load=loader)
    for mode in MODES:
        searcher.search("lamps", mode)
    assert loader.embedder.queries == ["lamps"]
