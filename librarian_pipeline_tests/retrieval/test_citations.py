from pathlib import Path
from typing import Any

import pytest

from librarian_pipeline.retrieval.citations import Citer, cite
from librarian_pipeline.retrieval.indexing import load_searcher
from librarian_pipeline.retrieval.modes import Passage, Searcher
from librarian_pipeline.settings import Bm25Settings, EmbeddingSettings, Settings
from librarian_pipeline_tests.retrieval.samples import section, segment, warehouse_at, write_episode, write_indexes

SETTINGS = Settings(embeddings=EmbeddingSettings(model="char-ngram"), bm25=Bm25Settings())
HOUR_MS = 3_600_000

SEGMENTS = [
    segment(0, 0, 9_000, "Welcome to the show about rivers and bridges."),
    segment(1, 9_000, 17_400, "The old bridge was closed in the spring."),
    segment(2, 17_999, 25_000, "Nobody told the ferryman about the flood."),
    segment(3, 25_000, 33_000, "The ferryman paints the flood, thanks for watching!", excluded=True),
    segment(4, 33_000, 44_000, "A bridge needs paint every seven years."),
    segment(5, HOUR_MS + 483_900, HOUR_MS + 490_000, "Late in the evening, a heron stood on the weir."),
]
SECTIONS = [
    section(0, "Links", "Where to read about herons."),
    section(1, "The closing", "How the weir was closed.", start_ms=61_999),
    section(2, None, "A note without a heading."),
]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Citer, Searcher]:
    warehouse = warehouse_at(tmp_path_factory.mktemp("archive"))
    write_episode(warehouse, "ep03", SETTINGS, SEGMENTS, SECTIONS)
    write_indexes(warehouse, ["ep03"], SETTINGS)
    searcher = load_searcher(warehouse, SETTINGS)
    return Citer(warehouse, searcher), searcher


def cited(searched: tuple[Citer, Searcher], query: str, chunk_id: str) -> Any:
    citer, searcher = searched
    return citer.cite(query, searcher.passages[chunk_id])


@pytest.mark.parametrize(
    ("query", "text", "start_ms"),
    [
        ("welcome to the rivers", "Ep. ep03 @ 00:00", 0),
        ("closed in the spring", "Ep. ep03 @ 00:09", 9_000),
        ("painting bridges for seven years", "Ep. ep03 @ 00:33", 33_000),
    ],
)
def test_the_segment_that_matches_the_query_best_is_cited(
    searched: tuple[Citer, Searcher], query: str, text: str, start_ms: int
) -> None:
    citation = cited(searched, query, "ep03:t000")
    assert (citation.text, citation.start_ms) == (text, start_ms)


def test_where_words_have_times_the_first_one_that_matches_is_cited(tmp_path: Path) -> None:
    spoken = "and then we came to the lighthouse at last"
    words = [
        {"word": word, "start_ms": 10_000 + 500 * i, "end_ms": 10_400 + 500 * i, "probability": 0.9}
        for i, word in enumerate(spoken.split())
    ]
    warehouse = warehouse_at(tmp_path)
    lines = ["The kettle is on.", "Nobody was there.", "It rained all day.", "We went home."]
    first = {**segment(0, 10_000, 15_000, spoken), "words": words}
    others = [segment(i + 1, 20_000 + 40_000 * i, 25_000 + 40_000 * i, line) for i, line in enumerate(lines)]
    write_episode(warehouse, "ep01", SETTINGS, [first, *others])
    write_indexes(warehouse, ["ep01"], SETTINGS)
    searcher = load_searcher(warehouse, SETTINGS)
    assert cited((Citer(warehouse, searcher), searcher), "lighthouses", "ep01:t000").start_ms == 13_000


def test_an_inflected_query_cites_the_segment_with_another_form(searched: tuple[Citer, Searcher]) -> None:
    assert cited(searched, "ferrymen", "ep03:t000").text == cited(searched, "ferryman", "ep03:t000").text


def test_parts_of_a_second_are_dropped(searched: tuple[Citer, Searcher]) -> None:
    assert cited(searched, "ferryman", "ep03:t000").text == "Ep. ep03 @ 00:17"


def test_a_segment_that_was_excluded_is_never_cited(searched: tuple[Citer, Searcher]) -> None:
    assert cited(searched, "ferryman painting the flood", "ep03:t000").start_ms == 17_999


def test_a_rare_word_outweighs_two_common_ones(searched: tuple[Citer, Searcher]) -> None:
    assert cited(searched, "closed in ferryman", "ep03:t000").start_ms == 17_999


def test_of_equal_matches_the_first_is_cited(searched: tuple[Citer, Searcher]) -> None:
    assert cited(searched, "closed spring closed", "ep03:t000").start_ms == 9_000


@pytest.mark.parametrize("query", ["???", "zorblax", "kdo varoval převozníka"])
def test_where_no_segment_has_a_word_of_the_query_the_start_of_the_passage_is_cited(
    searched: tuple[Citer, Searcher], query: str
) -> None:
    assert cited(searched, query, "ep03:t000").start_ms == 0


def test_from_the_hour_on_the_hour_is_shown(searched: tuple[Citer, Searcher]) -> None:
    citer, searcher = searched
    (late,) = [hit.passage for hit in searcher.search("heron stood late evening", "bm25_raw", 1)]
    assert citer.cite("heron", late).text == "Ep. ep03 @ 1:08:03"


def test_a_segment_outside_the_passage_is_not_cited(searched: tuple[Citer, Searcher]) -> None:
    assert cited(searched, "heron on the weir", "ep03:t000").start_ms < 44_000


def test_notes_with_a_time_are_cited_by_it(searched: tuple[Citer, Searcher]) -> None:
    assert cited(searched, "weir", "ep03:n001").text == "Ep. ep03 @ 01:01"


def test_notes_without_a_time_are_cited_by_their_heading(searched: tuple[Citer, Searcher]) -> None:
    citation = cited(searched, "herons", "ep03:n000")
    assert (citation.text, citation.episode_id, citation.start_ms) == ("Ep. ep03, notes: Links", "ep03", None)


def test_notes_without_a_time_or_a_heading_are_cited_as_notes(searched: tuple[Citer, Searcher]) -> None:
    assert cited(searched, "note", "ep03:n002").text == "Ep. ep03, notes"


def long_segment(tmp_path: Path, words: list[dict[str, Any]] | None = None) -> tuple[Citer, Searcher]:
    warehouse = warehouse_at(tmp_path)
    text = " ".join(f"word{number}" for number in range(80))
    row = {**segment(0, 0, 100_000, f"{text}."), "words": words}
    write_episode(warehouse, "ep04", SETTINGS, [row])
    write_indexes(warehouse, ["ep04"], SETTINGS)
    searcher = load_searcher(warehouse, SETTINGS)
    return Citer(warehouse, searcher), searcher


@pytest.mark.parametrize(("query", "start_ms"), [("word5", 0), ("word25", 25_000), ("word45", 50_000), ("word79", 75_000)])
def test_of_a_long_segment_the_part_that_matches_is_cited(tmp_path: Path, query: str, start_ms: int) -> None:
    citer, searcher = long_segment(tmp_path)
    hits = searcher.search(query, "bm25_raw")
    assert {citer.cite(query, hit.passage).start_ms for hit in hits} == {start_ms}


def test_of_a_long_segment_whose_words_have_times_the_part_is_cited_by_them(tmp_path: Path) -> None:
    starts = [*range(0, 20_000, 1_000), *range(28_000, 94_000, 1_100)]
    words = [
        {"word": f"word{i}" + "." * (i == 79), "start_ms": start, "end_ms": start + 500, "probability": None}
        for i, start in enumerate(starts)
    ]
    citer, searcher = long_segment(tmp_path, words)
    hits = searcher.search("word25", "bm25_raw")
    assert {citer.cite("word25", hit.passage).start_ms for hit in hits} == {28_000}


def test_a_transcript_of_another_edition_is_cited_without_a_time(tmp_path: Path) -> None:
    warehouse = warehouse_at(tmp_path)
    row = {**segment(0, 0, 9_000, "A heron stood on the weir."), "flags": ["wrong_edition"]}
    write_episode(warehouse, "ep05", SETTINGS, [row])
    write_indexes(warehouse, ["ep05"], SETTINGS)
    searcher = load_searcher(warehouse, SETTINGS)
    (hit,) = searcher.search("heron", "bm25_raw")
    citation = Citer(warehouse, searcher).cite("heron", hit.passage)
    assert (citation.text, citation.start_ms) == ("Ep. ep05, transcript", None)


def test_a_time_of_zero_is_a_time() -> None:
    passage = Passage("ep01:n000", "ep01", "notes", 0, None, "Start", "Text.", "en", None, None)
    assert cite(passage, passage.start_ms).text == "Ep. ep01 @ 00:00"
