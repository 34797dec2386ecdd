"""Keeps results below what clients take: about 25,000 tokens, text and structure together.

Sizes are counted in bytes of UTF-8, of which a token has two or more in any language.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel

from librarian_pipeline.serving.mcp.results import Hit, Place

Item = TypeVar("Item", bound=BaseModel)
SomePlace = TypeVar("SomePlace", bound=Place)

LINE = 200
"""Characters of a title, a heading or a reason."""
LEAST_TEXT = 400
"""Bytes of each hit, in both forms, before the first ones get more."""
ELLIPSIS = "…"


def shortened(text: str | None) -> str | None:
    return text if text is None or len(text) <= LINE else text[: LINE - 1] + ELLIPSIS


def size_of(model: BaseModel, as_text: Callable[..., str]) -> int:
    """Of both forms of it, with what parts it from the next."""
    return len(model.model_dump_json().encode()) + len(as_text(model).encode("utf-8", "replace")) + len(", \n\n")


def fit_hits(hits: Sequence[Hit], available: int, as_text: Callable[[Hit], str]) -> list[Hit]:
    """All of them, with as much text as there is room for; the first ones have more, down to a share for each."""
    sizes = [size_of(hit, as_text) for hit in hits]
    if sum(sizes) <= available:
        return list(hits)
    spare = available - sum(size_of(cut(hit, 0), as_text) for hit in hits)
    least = min(LEAST_TEXT, spare // len(hits))
    fitted: list[Hit] = []
    for number, hit in enumerate(hits, start=1):
        bare = size_of(cut(hit, 0), as_text)
        fitted.append(fit_text(hit, bare + spare - least * (len(hits) - number), as_text))
        spare -= size_of(fitted[-1], as_text) - bare
    return fitted


def fit_text(place: SomePlace, available: int, as_text: Callable[[SomePlace], str]) -> SomePlace:
    """With the longest beginning of its text for which there is room."""
    if size_of(place, as_text) <= available:
        return place
    fits, too_long = 0, len(place.text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if size_of(cut(place, middle), as_text) <= available:
            fits = middle
        else:
            too_long = middle
    return cut(place, fits)


def cut(place: SomePlace, characters: int) -> SomePlace:
    return place.model_copy(update={"text": place.text[:characters].rstrip() + ELLIPSIS, "text_cut": True})


def first_that_fit(items: Sequence[Item], available: int, as_text: Callable[[Item], str]) -> list[Item]:
    """A page of them; it may have none, if the first is too long."""
    page: list[Item] = []
    for item in items:
        available -= size_of(item, as_text)
        if available < 0:
            break
        page.append(item)
    return page
