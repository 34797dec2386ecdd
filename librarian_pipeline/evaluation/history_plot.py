"""The history of a metric as a picture: SVG, drawn here, for pages and Markdown; what it shows is in it in words as well."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from librarian_pipeline.evaluation.history import last_measurements

WIDTH, HEIGHT = 720, 280
LEFT, RIGHT, TOP, BOTTOM = 44, 140, 16, 44
"""Room for the scale, for the modes' names, and for the dates."""
LABEL_STEP = 15
MOST_SHOWN = 60
"""Measurements, the latest: more would be too close to be told apart."""
COLOURS = ("#0b62a8", "#b3470a", "#117a53", "#8a3ba8", "#7a6400", "#a8204e")
DARK_COLOURS = ("#7cc0ff", "#ffab70", "#6fd3a6", "#d7a1f2", "#e3c95b", "#ff93b5")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 6")
"""Nobody has to tell the lines by their colour."""


@dataclass(frozen=True)
class _Line:
    mode: str
    points: tuple[tuple[float, float], ...]
    last_value: float
    rank: int


def history_svg(history: pa.Table, metric: str, *, name: str = "history", has_paper: bool = False) -> str:
    """A line for each mode over the last measurements, evenly spaced; empty where nothing was measured.

    `history` has the columns of `schemas.EVAL_HISTORY`, by time. `name` keeps ids apart where a page has several pictures.
    With `has_paper` the picture brings its background, for places that may be light while the system is dark.
    """
    wanted = pc.and_(pc.equal(history.column("metric"), metric), pc.equal(history.column("slice"), "all"))
    shown = last_measurements(history.filter(wanted), MOST_SHOWN).to_pylist()
    measurements = list(dict.fromkeys(row["measurement"] for row in shown))
    if not measurements:
        return ""
    moments = {row["measurement"]: row for row in shown}
    lines = _lines(shown, measurements)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-labelledby="{name}-title {name}-desc" class="history-plot">',
        f'<title id="{name}-title">{escape(_title(metric, moments, measurements))}</title>',
        f'<desc id="{name}-desc">{escape(_description(lines, shown))}</desc>',
        f"<style>{_style()}</style>",
        *(['<rect class="paper" width="100%" height="100%"/>'] if has_paper else []),
        *_scale(),
        *_changes(moments, measurements),
        *(part for line in lines for part in _drawn(line)),
        *_labels(lines),
        *_dates(moments, measurements),
        "</svg>",
    ]
    return "".join(parts)


def history_markdown(history: pa.Table, metric: str) -> str:
    """The picture as Markdown that needs no file beside it."""
    svg = history_svg(history, metric, has_paper=True)
    if not svg:
        return "nothing has been measured yet"
    return f"![{metric} of each mode over time](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"


def _lines(rows: Sequence[Mapping[str, Any]], measurements: Sequence[str]) -> list[_Line]:
    places = {measurement: _x(i, len(measurements)) for i, measurement in enumerate(measurements)}
    modes = dict.fromkeys(row["mode"] for row in rows)
    lines = []
    for rank, mode in enumerate(sorted(modes)):
        own = [row for row in rows if row["mode"] == mode]
        points = tuple((places[row["measurement"]], _y(row["value"])) for row in own)
        lines.append(_Line(mode, points, own[-1]["value"], rank))
    return lines


def _x(i: int, n: int) -> float:
    width = WIDTH - LEFT - RIGHT
    return LEFT + (width / 2 if n == 1 else width * i / (n - 1))


def _y(value: float) -> float:
    """All metrics go from 0 to 1, and so does the scale: a loss of a point looks like what it is."""
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(1.0, max(0.0, value)))


def _title(metric: str, moments: Mapping[str, Mapping[str, Any]], measurements: Sequence[str]) -> str:
    first, last = (moments[measurement]["measured_at"][:10] for measurement in (measurements[0], measurements[-1]))
    return f"{metric} of each mode, {len(measurements)} measurements from {first} to {last}"


def _description(lines: Sequence[_Line], rows: Sequence[Mapping[str, Any]]) -> str:
    told = []
    for line in lines:
        values = [row["value"] for row in rows if row["mode"] == line.mode]
        told.append(f"{line.mode}: now {line.last_value:.2f}, lowest {min(values):.2f}, highest {max(values):.2f}")
    return "; ".join(told) + ". An upright line marks a change of what was measured."


def _style() -> str:
    def colours(values: Sequence[str]) -> str:
        return "".join(
            f".history-plot .c{i}{{stroke:{colour};color:{colour}}}.history-plot text.c{i}{{fill:{colour};stroke:none}}"
            f".history-plot circle.c{i}{{fill:{colour};stroke:none}}"
            for i, colour in enumerate(values)
        )

    return (
        ".history-plot text{font:12px system-ui,sans-serif;fill:#444}.history-plot polyline{fill:none;stroke-width:2}"
        ".history-plot .paper{fill:#fff}"
        ".history-plot .grid{stroke:#ccc;stroke-width:1}.history-plot .change{stroke:#999;stroke-dasharray:1 3}"
        f"{colours(COLOURS)}@media (prefers-color-scheme:dark){{.history-plot text{{fill:#bbb}}"
        f".history-plot .paper{{fill:#1e2126}}.history-plot .grid{{stroke:#444}}{colours(DARK_COLOURS)}}}"
    )


def _scale() -> list[str]:
    parts = []
    for tenths in range(0, 11, 2):
        y = _y(tenths / 10)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tenths / 10:.1f}</text>')
    return parts


def _changes(moments: Mapping[str, Mapping[str, Any]], measurements: Sequence[str]) -> list[str]:
    parts = []
    for i in range(1, len(measurements)):
        if moments[measurements[i]]["fingerprint"] != moments[measurements[i - 1]]["fingerprint"]:
            x = (_x(i, len(measurements)) + _x(i - 1, len(measurements))) / 2
            parts.append(f'<line class="change" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
    return parts


def _drawn(line: _Line) -> list[str]:
    style = f'class="c{line.rank % len(COLOURS)}"'
    dash = DASHES[line.rank % len(DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line.points)
    x, y = line.points[-1]
    return [f'<polyline {style}{dashed} points="{points}"/>', f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>']


def _labels(lines: Sequence[_Line]) -> list[str]:
    """Each at the end of its line, or as near to it as the others leave room."""
    parts, floor = [], float(TOP)
    by_height = sorted(lines, key=lambda line: line.points[-1][1])
    for i, line in enumerate(by_height):
        ceiling = HEIGHT - BOTTOM - LABEL_STEP * (len(by_height) - 1 - i)
        y = min(max(line.points[-1][1], floor), ceiling)
        floor = y + LABEL_STEP
        parts.append(
            f'<text class="c{line.rank % len(COLOURS)}" x="{WIDTH - RIGHT + 10}" y="{y + 4:.1f}">'
            f"{escape(line.mode)} {line.last_value:.2f}</text>"
        )
    return parts


def _dates(moments: Mapping[str, Mapping[str, Any]], measurements: Sequence[str]) -> list[str]:
    ends = [(0, "start"), (len(measurements) - 1, "end")] if len(measurements) > 1 else [(0, "middle")]
    return [
        f'<text x="{_x(i, len(measurements)):.1f}" y="{HEIGHT - BOTTOM + 22}" text-anchor="{anchor}">'
        f"{escape(moments[measurements[i]]['measured_at'][:16].replace('T', ' '))}</text>"
        for i, anchor in ends
    ]
