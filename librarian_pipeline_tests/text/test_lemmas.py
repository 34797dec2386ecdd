import subprocess
import sys
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from librarian_pipeline.settings import NormalizerSettings
from librarian_pipeline.text.lemmas import Normalizer, normalizer_recipe
from librarian_pipeline.text.tokens import words

NAMES = get_args(NormalizerSettings.model_fields["name"].annotation)
NORMALIZERS = {name: Normalizer(name) for name in NAMES}
languages = st.sampled_from(["en", "cs", "de", "und", "xx", ""])
# Letters, so that there are words, some of them Czech.
texts = st.one_of(st.text(max_size=40), st.text("abcěšžýáíůňAŘeyuoi' ", max_size=40))


def lemmas(text: str, language: str, name: str = "simplemma") -> list[str]:
    return NORMALIZERS[name].terms(text, language)


def test_the_settings_offer_the_four_normalisers() -> None:
    assert set(NAMES) == {"simplemma", "snowball", "suffix", "none"}


# Lemmas


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("městem", "města"),
        ("kočky", "kočkami"),
        ("řekách", "řeka"),
        ("psal", "psát"),
        ("starými", "starého"),
        ("lidé", "člověk"),
        ("koních", "kůň"),
        ("švestkami", "švestka"),
    ],
)
def test_forms_of_a_czech_word_share_their_lemma(one: str, other: str) -> None:
    assert lemmas(one, "cs") == lemmas(other, "cs")


@pytest.mark.parametrize(
    ("one", "other"),
    [("mice", "mouse"), ("went", "go"), ("running", "runs"), ("children", "child"), ("rivers", "river"), ("better", "good")],
)
def test_forms_of_an_english_word_share_their_lemma(one: str, other: str) -> None:
    assert lemmas(one, "en") == lemmas(other, "en")


@pytest.mark.parametrize(("one", "other", "language"), [("kočka", "kotel", "cs"), ("mouse", "house", "en")])
def test_different_words_keep_different_lemmas(one: str, other: str, language: str) -> None:
    assert lemmas(one, language) != lemmas(other, language)


@pytest.mark.parametrize(
    ("word", "language"), [("kočkami", "cs"), ("břehy", "cs"), ("řekách", "cs"), ("rivers", "en"), ("teams", "en")]
)
def test_a_capital_at_the_beginning_of_a_sentence_changes_nothing(word: str, language: str) -> None:
    assert lemmas(word.capitalize(), language) == lemmas(word, language)


@pytest.mark.parametrize(("word", "language"), [("kočkami", "cs"), ("rivers", "en")])
def test_a_word_in_capitals_has_the_lemma_of_the_word(word: str, language: str) -> None:
    assert lemmas(word.upper(), language) == lemmas(word, language)


@pytest.mark.parametrize(("form", "name"), [("Brně", "brno"), ("Praze", "praha"), ("Brno", "brno")])
def test_a_form_of_a_name_is_reduced_to_the_name(form: str, name: str) -> None:
    assert lemmas(form, "cs") == [name]


@pytest.mark.parametrize("language", ["und", "xx", "", "ENGLISH"])
def test_words_of_an_unknown_language_are_only_case_folded(language: str) -> None:
    assert lemmas("Mice in Brně", language) == ["mice", "in", "brně"]


def test_the_language_decides_what_a_word_is_reduced_to() -> None:
    assert lemmas("mice", "en") != lemmas("mice", "cs")


def test_a_possessive_has_the_lemma_of_its_owner_with_either_apostrophe() -> None:
    assert lemmas("keeper's keeper’s", "en") == ["keeper", "keeper"]


# The alternatives


@pytest.mark.parametrize(
    ("text", "language", "terms"),
    [
        ("Rivers running", "en", ["river", "run"]),
        ("Kočkami", "cs", ["kočk"]),
        ("Rivers", "und", ["rivers"]),
    ],
)
def test_snowball_stems_in_the_languages_that_it_knows(text: str, language: str, terms: list[str]) -> None:
    assert lemmas(text, language, "snowball") == terms


@pytest.mark.parametrize(
    ("text", "language", "terms"),
    [
        ("Kočkami kočkách", "cs", ["kočk", "kočk"]),
        ("Walked walking Walks", "en", ["walk", "walk", "walk"]),
        ("ves as", "en", ["ves", "as"]),
        ("Walks", "und", ["walks"]),
    ],
)
def test_suffix_cuts_the_longest_ending_that_leaves_three_letters(text: str, language: str, terms: list[str]) -> None:
    assert lemmas(text, language, "suffix") == terms


def test_none_only_folds_case() -> None:
    assert lemmas("Rivers v Brně", "cs", "none") == ["rivers", "v", "brně"]


# What all of them do


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=100)
@given(text=texts, language=languages)
def test_there_is_one_term_for_each_word(name: str, text: str, language: str) -> None:
    assert len(lemmas(text, language, name)) == len(words(text))


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=100)
@given(text=texts, language=languages)
def test_terms_are_always_case_folded(name: str, text: str, language: str) -> None:
    assert lemmas(text, language, name) == [term.casefold() for term in lemmas(text, language, name)]


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=100)
@given(text=texts, language=languages)
def test_no_term_is_empty(name: str, text: str, language: str) -> None:
    assert all(lemmas(text, language, name))


@pytest.mark.parametrize("name", NAMES)
def test_a_text_without_words_has_no_terms(name: str) -> None:
    assert lemmas("?! …", "cs", name) == []


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("simplemma", {"normalizer", "simplemma"}),
        ("snowball", {"normalizer", "snowballstemmer"}),
        ("suffix", {"normalizer"}),
        ("none", {"normalizer"}),
    ],
)
def test_the_recipe_holds_the_version_of_the_package_that_a_normaliser_uses(name: str, keys: set[str]) -> None:
    assert set(normalizer_recipe(name)) == keys


def test_an_unknown_normaliser_is_an_error() -> None:
    with pytest.raises(KeyError):
        Normalizer("porter")


def test_the_dictionaries_are_not_loaded_before_they_are_used() -> None:
    script = (
        "import sys, librarian_pipeline.text.lemmas as l; l.Normalizer('simplemma'); sys.exit('simplemma' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
