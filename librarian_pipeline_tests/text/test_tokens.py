import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.text.tokens import raw_tokens, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The kettle, again!", ["The", "kettle", "again"]),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy.", ["Příliš", "žluťoučký", "kůň", "úpěl", "ďábelské", "ódy"]),
        ("don't rock'n'roll", ["don't", "rock'n'roll"]),
        ("'quoted' dogs' ‘single’", ["quoted", "dogs", "single"]),
        ("MP3, 24-bit and 3.5 mm in 2024", ["MP3", "24", "bit", "and", "3", "5", "mm", "in", "2024"]),
        ("snake_case and _private_", ["snake", "case", "and", "private"]),
        ("naïve café—Ångström", ["naïve", "café", "Ångström"]),
        ("e-mail: me@example.org", ["e", "mail", "me", "example", "org"]),
        ("tea🎧time", ["tea", "time"]),
        ("x² + y²", ["x²", "y²"]),
    ],
)
def test_words_are_runs_of_letters_and_digits_in_their_own_case(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize("text", ["", " \n\t", "???", "… – —", "___", "'’'", "🎧"])
def test_text_without_letters_or_digits_has_no_words(text: str) -> None:
    assert words(text) == []


def test_a_typographic_apostrophe_is_the_same_as_a_straight_one() -> None:
    assert words("don’t o’clock") == words("don't o'clock") == ["don't", "o'clock"]


@given(st.text(max_size=60))
def test_composed_and_decomposed_text_have_the_same_words(text: str) -> None:
    assert words(unicodedata.normalize("NFD", text)) == words(unicodedata.normalize("NFC", text))


@given(st.text(max_size=60))
def test_the_words_of_the_words_are_themselves(text: str) -> None:
    assert words(" ".join(words(text))) == words(text)


@given(st.text(max_size=60))
def test_a_word_is_never_empty_and_holds_no_space(text: str) -> None:
    assert all(word and not any(char.isspace() for char in word) for word in words(text))


@given(st.text(max_size=60))
def test_raw_tokens_are_the_words_case_folded(text: str) -> None:
    assert raw_tokens(text) == [word.casefold() for word in words(text)]


@pytest.mark.parametrize(("one", "other"), [("KŮŇ", "kůň"), ("Straße", "STRASSE"), ("ŘEKA", "řeka")])
def test_raw_tokens_do_not_tell_capitals(one: str, other: str) -> None:
    assert raw_tokens(one) == raw_tokens(other)


def test_raw_tokens_keep_diacritics() -> None:
    assert raw_tokens("kůň") != raw_tokens("kun")
