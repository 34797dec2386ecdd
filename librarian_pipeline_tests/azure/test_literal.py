"""What people ask for reaches the service as text, whatever it looks like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.azure.literal import OPERATORS, has_words, literal
from librarian_pipeline.azure.stack import AzureStack
from librarian_pipeline_tests.azure.fake_service import FakeService, unescaped

LOOKS_LIKE_A_LANGUAGE = (
    "+salt -mules",
    "salt | mules",
    '"on the backs of mules"',
    "(salt OR mules) AND NOT bees",
    "sal*",
    "salt~2 mules^3",
    "text_en:salt",
    "/sal[tz]/",
    "salt && mules || !bees",
    "C++ and C#",
    "what's that\\",
    "\\+salt\\",
    "don't",
    "'; DROP TABLE chunks; --",
    "key gt '' or true",
    "*",
    "-",
    "((((",
    "salt\n\t+mules\x00",
    "e-mail a@b.cz",
)


@pytest.mark.parametrize("query", LOOKS_LIKE_A_LANGUAGE)
def test_no_operator_is_left(query: str) -> None:
    assert unescaped(literal(query)) == []


@given(st.text())
def test_no_operator_is_left_in_any_text(query: str) -> None:
    assert unescaped(literal(query)) == []


@given(st.text(alphabet=st.sampled_from([*sorted(OPERATORS), "a", " ", "1"])))
def test_taking_the_backslashes_away_again_gives_the_text(query: str) -> None:
    sent, read = literal(query), []
    position = 0
    while position < len(sent):
        position += sent[position] == "\\"
        read.append(sent[position])
        position += 1
    assert "".join(read) == " ".join(query.split())


@given(st.text())
def test_it_is_one_line_without_controls(query: str) -> None:
    assert all(char.isprintable() for char in literal(query))


@pytest.mark.parametrize("query", ["*", "???", "+ - |", "🙂", "\\", "''"])
def test_signs_alone_are_no_words(query: str) -> None:
    assert not has_words(query)


@pytest.mark.parametrize("query", ["a", "ž", "1", "C++", "漢字", "*a*"])
def test_letters_and_digits_are_words(query: str) -> None:
    assert has_words(query)


@pytest.mark.parametrize("mode", ["azure_bm25", "azure_hybrid"])
def test_the_service_sees_no_operator_in_any_query(stack: AzureStack, service: FakeService, mode: str) -> None:
    stack.update(lambda found: None)
    searcher = stack.searcher()
    for query in LOOKS_LIKE_A_LANGUAGE:
        searcher.search(query, mode)
    assert service.operators_seen == []
    assert not any("filter" in request.body for request in service.of("search") if "searchFields" in request.body)


def test_words_that_look_like_a_language_find_what_the_words_find(stack: AzureStack) -> None:
    stack.update(lambda found: None)
    searcher = stack.searcher()
    plain = searcher.search("salt mules", "azure_bm25")
    assert plain
    assert searcher.search('+"salt" -(mules*)', "azure_bm25") == plain


def test_signs_alone_find_nothing_by_words_and_ask_nothing(stack: AzureStack, service: FakeService) -> None:
    stack.update(lambda found: None)
    searcher = stack.searcher()
    before = len(service.requests)
    assert searcher.search("***", "azure_bm25") == []
    assert len(service.requests) == before
