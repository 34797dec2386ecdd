"""The score table as a README shows it, in Markdown or copied from a terminal, against the measured figures."""

import re
from collections.abc import Iterator, Mapping

HEADER = "retrieval mode"
NO_TABLE = None
_FIGURE = re.compile(r"\d+\.(\d+)")
_NAME = re.compile(r"\w+")
_RULE = re.compile(r"[\s|:=-]*")


def differences(text: str, figures: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], str] | None:
    """By mode and metric, what the first score table of the text says otherwise, to the precision that it shows.

    A mode that is measured and has no row there is a difference too, under the metric `""`. `NO_TABLE` if there is none.
    """
    lines = iter(text.splitlines())
    header = next((cells for line in lines if (cells := _cells(line)) and cells[0].casefold() == HEADER), None)
    if header is None:
        return NO_TABLE
    found: dict[tuple[str, str], str] = {}
    shown = set()
    for mode, cells in _rows(lines):
        shown.add(mode)
        for metric, cell in zip(header[1:], cells, strict=False):
            figure = _FIGURE.search(cell)
            if figure is None:
                continue
            live = figures.get((mode, metric))
            measured = f"{live:.{len(figure[1])}f}" if live is not None else "not at all"
            if measured != figure[0]:
                found[mode, metric] = f"{mode} {metric} {figure[0]}, measured {measured}"
    for mode in dict.fromkeys(mode for mode, _ in figures if mode not in shown):
        found[mode, ""] = f"{mode} has no row"
    return found


def _rows(lines: Iterator[str]) -> Iterator[tuple[str, list[str]]]:
    """Up to the first line that is none; the rule below a header is passed over. Marks around a mode's name are not its."""
    for line in lines:
        cells = _cells(line)
        name = _NAME.search(cells[0]) if cells else None
        if name and any(_FIGURE.search(cell) for cell in cells[1:]):
            yield name[0], cells[1:]
        elif not line.strip() or not _RULE.fullmatch(line):
            return


def _cells(line: str) -> list[str]:
    """Between bars; without any, between two spaces or more."""
    text = line.strip()
    parts = text.strip("|").split("|") if "|" in text else re.split(r"\s{2,}", text)
    return [part.strip() for part in parts] if text else []
