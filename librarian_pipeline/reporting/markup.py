"""HTML that is put together from elements. Text is escaped unless it says that it is markup, and only elements say so."""

from collections.abc import Iterable, Sequence
from html import escape

from librarian_pipeline.console import printable


class Markup(str):
    """Text that is HTML already."""


Child = str | Markup | None


def element(tag: str, *children: Child, **attributes: str | None) -> Markup:
    """`<tag ...>children</tag>`. An underscore at an attribute's end is dropped, one inside it becomes a hyphen."""
    told = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{told}>{join(children)}</{tag}>")


def join(children: Iterable[Child]) -> Markup:
    return Markup(
        "".join(child if isinstance(child, Markup) else _escaped(child) for child in children if child is not None)
    )


def _escaped(text: str) -> str:
    """Without what could turn the reading direction or end a tag, whatever the archive holds."""
    return escape(printable(text), quote=True)


def table(
    caption: str, header: Sequence[Child], rows: Iterable[Sequence[Child]], *, numbers_from: int | None = None
) -> Markup:
    """A table whose first column names its rows. Wide ones scroll by themselves, with the keyboard too."""

    def style(position: int) -> str | None:
        return "number" if numbers_from is not None and position >= numbers_from else None

    head = element("tr", *(element("th", cell, scope="col", class_=style(i)) for i, cell in enumerate(header)))
    body = [
        element(
            "tr",
            *(
                element("th", cell, scope="row") if i == 0 else element("td", cell, class_=style(i))
                for i, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    whole = element("table", element("caption", caption), element("thead", head), element("tbody", *body))
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def folded(summary: Child, *children: Child, is_open: bool = False) -> Markup:
    """What unfolds without any script."""
    return element("details", element("summary", summary), *children, **({"open": ""} if is_open else {}))


def listed(lines: Iterable[Child]) -> Markup:
    return element("ul", *(element("li", line) for line in lines))
