import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.console import printable


@given(st.text(st.characters(codec=None), max_size=50))
def test_controls_formats_and_half_characters_are_replaced_and_nothing_else(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    for char, instead in zip(text, shown, strict=True):
        steers = unicodedata.category(char) in ("Cc", "Cf", "Cs") and char != "\n"
        assert instead == ("\N{REPLACEMENT CHARACTER}" if steers else char)
