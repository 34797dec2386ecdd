import re

import pytest
from azure.search.documents.indexes.models import LexicalAnalyzerName
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.azure.documents import chunk_id_of, documents_of, key_of
from librarian_pipeline.azure.index_definition import ANALYZED_LANGUAGES, text_field
from librarian_pipeline_tests.retrieval.samples import chunks_of, passage

MADE_BY = {"deployment": "embed-small", "dimensions": 4}
EPISODES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
IDS = st.builds("{}:{}{:03d}".format, EPISODES, st.sampled_from("nt"), st.integers(0, 10_000))


@given(IDS)
def test_a_key_holds_what_keys_may_hold_and_leads_back_to_the_passage(chunk_id: str) -> None:
    key = key_of(chunk_id)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_=-]*", key)
    assert chunk_id_of(key) == chunk_id


@given(st.lists(IDS, unique=True))
def test_different_passages_have_different_keys(ids: list[str]) -> None:
    assert len({key_of(chunk_id) for chunk_id in ids}) == len(ids)


@pytest.mark.parametrize("key", ["", "x", "p*", "pA", "p=", "q" + key_of("ep01:n000")[1:], key_of("ep01:n000") + "="])
def test_what_is_no_key_of_ours_is_refused(key: str) -> None:
    if key_of("") == key:
        return
    with pytest.raises(ValueError, match=r"\w"):
        chunk_id_of(key)


def digest(text: str, language: str = "en", heading: str | None = None, **made_by: object) -> str:
    (document,) = documents_of(chunks_of(passage("ep01:n000", text, language, heading)), {**MADE_BY, **made_by})
    return document.digest


def test_equal_passages_made_alike_have_an_equal_digest() -> None:
    assert digest("Salt.") == digest("Salt.")


@pytest.mark.parametrize(
    "other",
    [
        digest("Salt!"),
        digest("Salt.", "cs"),
        digest("Salt.", heading="Road"),
        digest("Salt.", dimensions=8),
        digest("Salt.", deployment="other"),
    ],
    ids=["text", "language", "heading", "dimensions", "deployment"],
)
def test_the_digest_changes_with_all_that_a_document_is_made_from(other: str) -> None:
    assert digest("Salt.") != other


def test_a_passage_stands_in_the_field_of_its_language_with_its_heading() -> None:
    english, czech, other = documents_of(
        chunks_of(
            passage("a:n000", "Salt.", heading="Road"), passage("b:n000", "Sůl.", "cs"), passage("c:n000", "Sal.", "la")
        ),
        MADE_BY,
    )
    assert (english.field, english.text) == ("text_en", "Road\nSalt.")
    assert czech.field == "text_cs"
    assert other.field == "text"


def test_a_passage_without_text_has_no_document() -> None:
    assert documents_of(chunks_of(passage("a:n000", "  ")), MADE_BY) == []


def test_the_service_has_the_analyzers_that_fields_name() -> None:
    known = {str(name.value) for name in LexicalAnalyzerName}
    assert {f"{language}.microsoft" for language in ANALYZED_LANGUAGES} <= known
    assert "standard.lucene" in known


def test_no_two_languages_share_a_field() -> None:
    assert len({text_field(language) for language in ANALYZED_LANGUAGES}) == len(ANALYZED_LANGUAGES)
