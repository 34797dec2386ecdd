"""What `bm25_stem` reduces words to: lemmas by the language of the text, or one of the alternatives.

Every normaliser maps a list of words and a language to a list of terms of the same length.
"""

import threading
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from librarian_pipeline.text.tokens import words

# Longest first, so that the longest ending that leaves a stem of three letters or more is taken.
# fmt: off
SUFFIXES = {
    "en": ("ings", "ing", "edly", "ed", "es", "ly", "s"),
    "cs": (
        "ového", "ovému", "ovými", "ého", "ému", "ých", "ými", "ách", "ami", "emi", "ech", "ům", "ou", "em", "ám",
        "y", "u", "a", "e", "i", "o", "ů", "á", "é", "í",
    ),
}
# fmt: on
SNOWBALL_LANGUAGES = {
    "cs": "czech",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "pl": "polish",
}

_STEMMING = threading.Lock()
"""A stemmer of snowballstemmer keeps the word that it is at in itself: two threads would get each other's."""


class Normalizer:
    """Turns texts into terms. `name` is one of `simplemma`, `snowball`, `suffix`, `none`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._normalize: Callable[[str, str], str] = lru_cache(maxsize=1 << 18)(_NORMALIZERS[name])

    def terms(self, text: str, language: str) -> list[str]:
        """The terms of `text`, which is in `language` (ISO 639-1); words of unknown languages are only case-folded."""
        return [self._normalize(word, language) for word in words(text)]


PACKAGES = {"simplemma": "simplemma", "snowball": "snowballstemmer"}


def normalizer_version(name: str) -> str | None:
    """The version of the library behind a normaliser; None for our own."""
    return version(PACKAGES[name]) if name in PACKAGES else None


def normalizer_recipe(name: str) -> dict[str, Any]:
    """What of a normaliser can change an index."""
    return {"normalizer": name, **({PACKAGES[name]: normalizer_version(name)} if name in PACKAGES else {})}


def _casefolded(word: str, language: str) -> str:
    return word.casefold()


def _lemma(word: str, language: str) -> str:
    """The lemma, in lower case. A capital marks a name or begins a sentence, so the word as written is tried first."""
    import simplemma

    if language not in _simplemma_languages():
        return word.casefold()
    lemma: str = simplemma.lemmatize(word, lang=language)
    if lemma == word and word != word.lower():
        lemma = simplemma.lemmatize(word.lower(), lang=language)
    return lemma.casefold()


@lru_cache
def _simplemma_languages() -> frozenset[str]:
    from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES

    return frozenset(SUPPORTED_LANGUAGES)


def _snowball_stem(word: str, language: str) -> str:
    stemmer = _snowball(language)
    if stemmer is None:
        return word.casefold()
    with _STEMMING:
        return str(stemmer.stemWord(word.casefold()))


@lru_cache
def _snowball(language: str) -> Any:
    import snowballstemmer

    name = SNOWBALL_LANGUAGES.get(language)
    return snowballstemmer.stemmer(name) if name else None


def _without_suffix(word: str, language: str) -> str:
    folded = word.casefold()
    for suffix in SUFFIXES.get(language, ()):
        if folded.endswith(suffix) and len(folded) - len(suffix) >= 3:
            return folded.removesuffix(suffix)
    return folded


_NORMALIZERS: dict[str, Callable[[str, str], str]] = {
    "simplemma": _lemma,
    "snowball": _snowball_stem,
    "suffix": _without_suffix,
    "none": _casefolded,
}
