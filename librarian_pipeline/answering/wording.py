"""Words and sentences of a passage, with their places in it."""

import itertools
import re
import unicodedata
from typing import NamedTuple

# Combining marks belong to their letter, in decomposed text too.
_WORD = re.compile(r"(?:[^\W_][\u0300-\u036f]*)+")
_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)")
LONGEST_PIECE_WORDS = 40
"""Speech is transcribed without a full stop, at times: then this many words stand for a sentence."""


class Token(NamedTuple):
    """A word as it is compared, and its place in the text."""

    word: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """The words of a text without signs, compatibly decomposed, case-folded and composed again.

    Diacritics are kept: in Czech, `rada` and `řada` are different words, and a quote with one for the other is no quote.
    """
    return [Token(_folded(match.group()), match.start(), match.end()) for match in _WORD.finditer(text)]


def _folded(word: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", word).casefold())


def words_of(text: str) -> list[str]:
    return [token.word for token in tokens(text)]


def sentences(text: str) -> list[tuple[int, int]]:
    """(start, end) of each sentence in order, long ones in pieces; together they hold all that isn't space."""
    bounds = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    return [piece for start, end in itertools.pairwise(bounds) for piece in _pieces(text, start, end)]


def _pieces(text: str, start: int, end: int) -> list[tuple[int, int]]:
    written = [(start + match.start(), start + match.end()) for match in re.finditer(r"\S+", text[start:end])]
    groups = -(-len(written) // LONGEST_PIECE_WORDS)
    cuts = [number * len(written) // groups for number in range(groups + 1)] if groups else []
    return [(written[first][0], written[last - 1][1]) for first, last in itertools.pairwise(cuts)]


def find(wanted: list[str], within: list[str]) -> int | None:
    """Where a run of words begins among others; None where it doesn't occur."""
    if not wanted:
        return None
    for start in range(len(within) - len(wanted) + 1):
        if within[start : start + len(wanted)] == wanted:
            return start
    return None
