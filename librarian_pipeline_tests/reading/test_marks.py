"""Which words are marked, and which part of a long passage is shown."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.reading.marks import CUT, Mark, MarkedText, excerpt, marked
from librarian_pipeline.text.tokens import word_spans, words
from librarian_pipeline_tests.retrieval.samples import HashedWordsStandIn, chunks_of, passage, searcher_over

TEXTS = {
    "a:n000": ("Zvon visí ve věži, a zvoník zvony natahuje.", "cs"),
    "b:n000": ("The ferry drifted past the bell, and the baker's oven.", "en"),
    "c:n000": ("The road, the mill and the sea.", "en"),
    "d:n000": ("The clock and the owl.", "en"),
    "e:n000": ("Nothing but rain.", "en"),
}
SEARCHER = searcher_over(
    chunks_of(*(passage(id, text, language) for id, (text, language) in TEXTS.items())), HashedWordsStandIn()
)


def marks(chunk_id: str, query: str) -> list[str]:
    found = marked(SEARCHER.passages[chunk_id], query, SEARCHER)
    return [found.text[start:end] for start, end in found.spans]


@pytest.mark.parametrize(
    ("chunk_id", "query", "expected"),
    [
        ("a:n000", "zvonů", ["Zvon", "zvony"]),
        ("b:n000", "drifting ferries", ["ferry", "drifted"]),
        ("b:n000", "the baker’s", ["baker's"]),
        ("b:n000", "zeppelin", []),
        ("b:n000", "???", []),
        ("c:n000", "the mill", ["mill"]),
    ],
)
def test_words_are_marked_by_their_lemma_in_the_language_of_the_passage(
    chunk_id: str, query: str, expected: list[str]
) -> None:
    assert marks(chunk_id, query) == expected


def test_a_query_in_other_composition_marks_the_same() -> None:
    assert marks("a:n000", unicodedata.normalize("NFD", "věž")) == ["věži"]


@given(text=st.text(alphabet=st.sampled_from("aé'’1_ -\n\u202eｘ界"), max_size=60))
def test_the_spans_are_those_of_the_words(text: str) -> None:
    text = unicodedata.normalize("NFC", text)
    assert [text[start:end].replace("’", "'") for start, end in word_spans(text)] == words(text)


@st.composite
def marked_texts(draw: st.DrawFn) -> MarkedText:
    text = draw(st.text(alphabet=st.sampled_from("ab  \n"), max_size=300))
    chosen = draw(st.sets(st.sampled_from(word_spans(text)), max_size=8)) if word_spans(text) else set()
    weights = {span: float(draw(st.integers(1, 9))) for span in sorted(chosen)}
    return MarkedText(text, tuple(Mark(*span, text[slice(*span)], weight) for span, weight in weights.items()))


@given(whole=marked_texts(), length=st.integers(20, 120))
def test_an_excerpt_is_a_part_of_the_text_with_its_marks(whole: MarkedText, length: int) -> None:
    part = excerpt(whole, length)
    assert len(part.text) <= length + 2 * len(f"{CUT} ")
    assert part.text.removeprefix(f"{CUT} ").removesuffix(f" {CUT}") in whole.text
    terms = {mark.term for mark in whole.marks}
    assert {part.text[mark.start : mark.end] for mark in part.marks} <= terms
    assert all(part.text[mark.start : mark.end] == mark.term for mark in part.marks)


@given(whole=marked_texts(), length=st.integers(20, 120))
def test_the_pieces_put_together_are_the_text(whole: MarkedText, length: int) -> None:
    part = excerpt(whole, length)
    assert "".join(piece for piece, _ in part.pieces()) == part.text
    assert sum(is_marked for _, is_marked in part.pieces()) == len(part.marks)


def test_an_excerpt_is_around_the_part_with_the_most_weight() -> None:
    text = "common " + "filler " * 60 + "rare and scarce " + "filler " * 60 + "common"
    spans = [
        (at, at + len(word), word, weight)
        for word, weight in (("common", 1.0), ("rare", 4.0), ("scarce", 4.0))
        for at in range(len(text))
        if text.startswith(word, at)
    ]
    part = excerpt(MarkedText(text, tuple(Mark(*span) for span in sorted(spans))), 60)
    assert [part.text[start:end] for start, end in part.spans] == ["rare", "scarce"]
    assert part.text.startswith(f"{CUT} filler")
    assert part.text.endswith(f"filler {CUT}")


def test_without_a_mark_an_excerpt_is_the_beginning() -> None:
    assert excerpt(MarkedText("one two three four five six"), 20).text == f"one two three four {CUT}"
