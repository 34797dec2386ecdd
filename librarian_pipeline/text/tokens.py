"""Words of a text as the indexes see them."""

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def words(text: str) -> list[str]:
    """The words of `text` in order, in their own case: NFC, letters and digits; inner apostrophes are kept, as `'`."""
    return _WORD.findall(unicodedata.normalize("NFC", text).replace("’", "'"))


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words of a text in NFC begin and end: as many as `words` gives, in the same order."""
    return [match.span() for match in _WORD.finditer(text.replace("’", "'"))]


def raw_tokens(text: str) -> list[str]:
    """The tokens of `bm25_raw`: the words, case-folded."""
    return [word.casefold() for word in words(text)]
