from pathlib import Path
from typing import Any

import pytest

from librarian_pipeline.answering.places import cite_word
from librarian_pipeline.answering.wording import find, words_of
from librarian_pipeline.retrieval.modes import Passage, passages_of
from librarian_pipeline.settings import EmbeddingSettings, Settings
from librarian_pipeline.storage.schemas import CHUNKS
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline_tests.retrieval.samples import section, segment, warehouse_at, write_episode

SETTINGS = Settings(embeddings=EmbeddingSettings(model="char-ngram"))
MONOTONE = " ".join(f"word{number}" for number in range(300))


def passages(folder: Path, *segments: dict[str, Any], sections: tuple[dict[str, Any], ...] = ()) -> tuple[Warehouse, Any]:
    warehouse = warehouse_at(folder)
    write_episode(warehouse, "ep03", SETTINGS, segments, sections)
    return warehouse, passages_of(warehouse.read_all("chunks", ["ep03"], CHUNKS))


def cited(warehouse: Warehouse, passage: Passage, quote: str) -> str:
    position = find(words_of(quote), words_of(passage.text))
    assert position is not None
    return cite_word(warehouse, passage, position).text


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIBRARIAN_CACHE", str(tmp_path / "cache"))


def test_the_segment_in_which_the_quote_begins_is_cited_past_excluded_ones(tmp_path: Path) -> None:
    warehouse, found = passages(
        tmp_path,
        segment(0, 0, 9_000, "The old bridge was closed in the spring."),
        segment(1, 9_000, 17_000, "Thanks for watching this!", excluded=True),
        segment(2, 17_000, 25_000, "Nobody told the ferryman of the flood."),
        segment(3, 25_000, 33_000, "A bridge needs paint."),
    )
    passage = found["ep03:t000"]
    assert cited(warehouse, passage, "told the ferryman of") == "Ep. ep03 @ 00:17"
    assert cited(warehouse, passage, "the flood. A bridge needs") == "Ep. ep03 @ 00:17"
    assert cited(warehouse, passage, "a bridge needs paint") == "Ep. ep03 @ 00:25"


def test_where_words_have_times_the_first_quoted_one_is_cited(tmp_path: Path) -> None:
    words = [" And", " then", " we", " came", " to", " the", " light", "-house", " at", " last."]
    timed = [{"word": word, "start_ms": 1_000 * n, "end_ms": 1_000 * n + 900} for n, word in enumerate(words)]
    warehouse, found = passages(
        tmp_path, {**segment(0, 0, 11_000, "And then we came to the light-house at last."), "words": timed}
    )
    assert cited(warehouse, found["ep03:t000"], "house at last") == "Ep. ep03 @ 00:07"


def test_a_quote_of_a_long_segment_is_cited_near_its_place(tmp_path: Path) -> None:
    warehouse, found = passages(tmp_path, segment(0, 0, 300_000, MONOTONE))
    for passage in found.values():
        for number in range(0, 300, 7):
            quote = f"word{number} word{number + 1} word{number + 2}"
            position = find(words_of(quote), words_of(passage.text))
            if position is not None:
                start_ms = cite_word(warehouse, passage, position).start_ms
                assert start_ms is not None
                assert passage.start_ms <= start_ms <= passage.end_ms
                assert 0 <= number * 1_000 - start_ms <= 30_000


def test_notes_are_cited_by_their_heading_or_their_time(tmp_path: Path) -> None:
    links, closing = section(0, "Links", "Where to read about herons."), section(1, "Weir", "How it was closed.", 61_999)
    warehouse, found = passages(tmp_path, segment(0, 0, 9_000, "The old bridge was closed."), sections=(links, closing))
    assert cited(warehouse, found["ep03:n000"], "to read about") == "Ep. ep03, notes: Links"
    assert cited(warehouse, found["ep03:n001"], "how it was") == "Ep. ep03 @ 01:01"


def test_without_its_segments_a_passage_is_cited_at_its_start(tmp_path: Path) -> None:
    _, found = passages(tmp_path / "one", segment(0, 4_000, 9_000, "The old bridge was closed."))
    assert cited(warehouse_at(tmp_path / "two"), found["ep03:t000"], "bridge was closed") == "Ep. ep03 @ 00:04"
