import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from librarian_pipeline.archive.layout import Archive
from librarian_pipeline.archive.notes import read_front_matter, read_notes
from librarian_pipeline.chunking.passages import cut_episode, indexed_text
from librarian_pipeline.retrieval import bm25
from librarian_pipeline.retrieval.bm25 import Bm25Index, build_bm25
from librarian_pipeline.retrieval.indexing import load_bm25
from librarian_pipeline.settings import Bm25Settings, ChunkSettings
from librarian_pipeline.speech.transcript import published_transcript
from librarian_pipeline.storage.schemas import AUDIO, NOTES, TRANSCRIPTS
from librarian_pipeline.text.lemmas import Normalizer
from librarian_pipeline.text.tokens import raw_tokens
from librarian_pipeline_tests.retrieval.samples import warehouse_at, write_bm25

SAMPLE_ARCHIVE = Path(__file__).absolute().parents[2] / "data"
Corpus = list[list[str]]

# Few terms, so that repeats, terms in half of the documents and terms in all of them come up often.
terms = st.sampled_from(["river", "tram", "kůň", "a", "b", "c"])
corpora = st.lists(st.lists(terms, max_size=8), min_size=1, max_size=12).filter(any)
queries = st.lists(st.one_of(terms, st.sampled_from(["unknown", ""])), max_size=8)
parameters = st.builds(
    Bm25Settings,
    k1=st.sampled_from([0.1, 0.9, 1.2, 1.5, 2.0, 3.7]),
    b=st.sampled_from([0.0, 0.1, 0.4, 0.75, 0.99]),
    epsilon=st.sampled_from([0.0, 0.1, 0.25, 1.0]),
)


def index_of(corpus: Corpus, settings: Bm25Settings | None = None) -> Bm25Index:
    ids = [f"ep01:t{number:03d}" for number in range(len(corpus))]
    return Bm25Index(build_bm25(ids, ["en"] * len(corpus), corpus, settings or Bm25Settings()))


def oracle(corpus: Corpus, settings: Bm25Settings) -> BM25Okapi:
    return BM25Okapi(corpus, k1=settings.k1, b=settings.b, epsilon=settings.epsilon)


def expected(corpus: Corpus, query: list[str], settings: Bm25Settings) -> list[float]:
    scores: list[float] = oracle(corpus, settings).get_scores(query).tolist()
    return scores


@settings(deadline=None, max_examples=400)
@given(corpora, queries, parameters)
@example([["a"], ["b"]], ["a", "b"], Bm25Settings())  # in half of the documents: an idf of zero
@example([["a", "b"], ["a"], ["a", "c"]], ["a"], Bm25Settings())  # in all of them: the floor
@example([["a"], ["a"]], ["a"], Bm25Settings())  # every idf below zero: a floor below zero
@example([["a"], []], ["a", "a", "unknown"], Bm25Settings())
def test_scores_are_those_of_rank_bm25_to_the_last_bit(corpus: Corpus, query: list[str], settings: Bm25Settings) -> None:
    scores, _ = index_of(corpus, settings).scores(query)
    assert scores.tolist() == expected(corpus, query, settings)


@settings(deadline=None, max_examples=100)
@given(corpora, queries)
def test_a_candidate_is_a_document_that_holds_a_term_of_the_query(corpus: Corpus, query: list[str]) -> None:
    _, candidates = index_of(corpus).scores(query)
    assert candidates.tolist() == [bool(set(document) & set(query)) for document in corpus]


@settings(deadline=None, max_examples=200)
@given(corpora, queries, parameters)
def test_no_score_is_above_the_highest(corpus: Corpus, query: list[str], settings: Bm25Settings) -> None:
    index = index_of(corpus, settings)
    scores, _ = index.scores(query)
    assert scores.max() <= index.highest(query) + 1e-9


def test_a_document_of_hardly_anything_but_the_terms_of_the_query_comes_near_the_highest() -> None:
    index = index_of([["river"] * 5_000 + ["tram"] * 5_000, *([["a"] * 10_000] * 9)])
    scores, _ = index.scores(["river", "tram"])
    assert scores[0] == pytest.approx(index.highest(["river", "tram"]), rel=1e-3)


def test_a_term_that_no_document_holds_raises_the_highest_more_than_the_rarest_one() -> None:
    index = index_of([["river", "a"], ["a"], ["a"], ["a"]])
    assert index.highest(["a", "unknown"]) > index.highest(["a", "river"]) > index.highest(["a"])


@settings(deadline=None, max_examples=100)
@given(corpora, queries)
def test_a_document_that_is_no_candidate_scores_zero(corpus: Corpus, query: list[str]) -> None:
    scores, candidates = index_of(corpus).scores(query)
    assert not scores[~candidates].any()


@settings(deadline=None, max_examples=100)
@given(corpora.flatmap(lambda corpus: st.tuples(st.just(corpus), st.permutations(range(len(corpus))))), terms)
def test_the_score_of_a_document_for_a_word_does_not_depend_on_the_order_of_the_index(
    drawn: tuple[Corpus, list[int]], word: str
) -> None:
    corpus, order = drawn
    straight, _ = index_of(corpus).scores([word])
    mixed, _ = index_of([corpus[number] for number in order]).scores([word])
    assert mixed == pytest.approx(straight[order], rel=1e-12)


@pytest.mark.parametrize("settings", [Bm25Settings(k1=0), Bm25Settings(b=1), Bm25Settings(k1=0, b=1)], ids=str)
def test_parameters_at_their_ends_give_finite_scores(settings: Bm25Settings) -> None:
    scores, _ = index_of([["a", "b"], [], ["b", "c"], ["d"]], settings).scores(["a", "b"])
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("corpus", [[], [[]], [[], [], []]], ids=["no document", "an empty one", "only empty ones"])
def test_an_empty_corpus_has_no_candidates(corpus: Corpus) -> None:
    with np.errstate(all="raise"):
        _, candidates = index_of(corpus).scores(["river"])
    assert candidates.tolist() == [False] * len(corpus)


def test_a_query_given_as_one_string_is_refused() -> None:
    with pytest.raises(TypeError, match="list of terms"):
        index_of([["river"]]).scores("river")


def test_the_idf_of_a_term_is_the_one_that_scores_use() -> None:
    corpus = [["a", "b"], ["a"], ["a", "c"], ["d"]]
    reference = oracle(corpus, Bm25Settings())
    assert {term: index_of(corpus).idf(term) for term in "abcd"} == reference.idf


def test_the_idf_of_an_unknown_term_is_zero() -> None:
    assert index_of([["a"], ["b"]]).idf("unknown") == 0


def test_the_mean_idf_is_summed_without_the_compensation_of_later_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = [[f"w{number % 7}", f"w{number % 11}", f"w{number}", "all"] for number in range(60)]
    monkeypatch.setattr(bm25, "sum", math.fsum, raising=False)
    (row,) = build_bm25([str(n) for n in range(60)], ["en"] * 60, corpus, Bm25Settings()).corpus.to_pylist()
    assert row["average_idf"] == oracle(corpus, Bm25Settings()).average_idf


def test_a_round_trip_through_parquet_keeps_every_bit(tmp_path: Path) -> None:
    corpus = [[f"w{(number * step) % 37}" for step in range(1, 9)] for number in range(50)] + [[]]
    ids = [f"ep{number:02d}:t000" for number in range(len(corpus))]
    tables = build_bm25(ids, ["en"] * len(corpus), corpus, Bm25Settings())
    write_bm25(warehouse_at(tmp_path), "bm25_raw", tables, {}, {})
    loaded = load_bm25(warehouse_at(tmp_path), "bm25_raw")
    query = ["w1", "w5", "w5", "unknown", "w36"]
    assert loaded.scores(query)[0].tolist() == expected(corpus, query, Bm25Settings())


def test_an_empty_index_survives_a_round_trip_through_parquet(tmp_path: Path) -> None:
    write_bm25(warehouse_at(tmp_path), "bm25_raw", build_bm25([], [], [], Bm25Settings()), {}, {})
    scores, candidates = load_bm25(warehouse_at(tmp_path), "bm25_raw").scores(["river"])
    assert (scores.size, candidates.size) == (0, 0)


@pytest.fixture(scope="module")
def sample_passages() -> list[tuple[str, str]]:
    """(language, text) of the passages of the sample archive, out of notes and published transcripts."""
    passages = []
    for files in Archive(SAMPLE_ARCHIVE).discover().episodes.values():
        language = read_front_matter(files.notes).language if files.notes else None
        notes = pa.Table.from_pylist(read_notes(files.notes, files.episode_id) if files.notes else [], schema=NOTES)
        transcript = TRANSCRIPTS.empty_table()
        if files.published:
            transcript, _ = published_transcript(files.published, files.episode_id, language, AUDIO.empty_table(), 30)
        for row in cut_episode(files.episode_id, transcript, notes, ChunkSettings()).to_pylist():
            passages.append((row["language"], indexed_text(row["heading"], row["text"])))
    return passages


@pytest.mark.parametrize(
    "terms_of",
    [lambda text, language: raw_tokens(text), Normalizer("simplemma").terms],
    ids=["raw tokens", "lemmas"],
)
def test_the_sample_archive_is_scored_as_by_rank_bm25_to_the_last_bit(
    sample_passages: list[tuple[str, str]], terms_of: Callable[[str, str], list[str]]
) -> None:
    corpus = [terms_of(text, language) for language, text in sample_passages]
    index, reference = index_of(corpus), oracle(corpus, Bm25Settings())
    queries = [document[start : start + 6] for document in corpus for start in (0, 9)]
    differing = [query for query in queries if index.scores(query)[0].tolist() != reference.get_scores(query).tolist()]
    assert len(corpus) > 30
    assert differing == []


def test_postings_are_kept_as_they_are_first_seen() -> None:
    tables = build_bm25(["x:t0", "x:t1"], ["en", "en"], [["b", "a", "b"], ["a", "c"]], Bm25Settings())
    rows = [tuple(row.values()) for row in tables.postings.to_pylist()]
    assert rows == [("b", "x:t0", 2), ("a", "x:t0", 1), ("a", "x:t1", 1), ("c", "x:t1", 1)]
