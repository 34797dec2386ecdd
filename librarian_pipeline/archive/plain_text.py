"""Text out of other people's files, as one line that every table and format can hold."""

import re
import unicodedata

# Whitespace among them separates words and is handled as such.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")


def without_control(text: str) -> str:
    """`text` without NULs, other control characters and stray byte order marks; line ends and tabs stay."""
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    """`text` in NFC on one line, with single spaces and no control characters."""
    # JSON and ID3 can hold half a surrogate pair, which no other format can.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return " ".join(without_control(unicodedata.normalize("NFC", whole)).split())
