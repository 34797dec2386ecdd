"""How the command line shows things: errors, tables, progress. Text from an archive is shown as text, whatever it holds."""

import json
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from librarian_pipeline.progress import Progress as ProgressReports

if TYPE_CHECKING:
    from librarian_pipeline.evaluation.score_table import Grid, ScoreTable

LINE_EVERY_S = 15.0


def out() -> Console:
    return Console(highlight=False, soft_wrap=True)


def err() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """`text` without what could steer a terminal or turn the reading direction: controls and format characters."""
    return text.translate(_SHOWN)


class _Shown(dict[int, int]):
    """What each character is shown as; looked up once, since servers show a great many."""

    def __missing__(self, code: int) -> int:
        steers = chr(code) != "\n" and unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs")
        self[code] = ord("\N{REPLACEMENT CHARACTER}") if steers else code
        return self[code]


_SHOWN = _Shown()


def print_lines(lines: Iterable[str], *, to_stderr: bool = False) -> None:
    console = err() if to_stderr else out()
    for line in lines:
        console.print(Text(printable(line)))


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers_from: int | None = None) -> None:
    """Columns from `numbers_from` on hold numbers, and are set to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, name in enumerate(header):
        is_number = numbers_from is not None and position >= numbers_from
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(highlight=False)
    console.print(table)


def print_score_table(table: "ScoreTable") -> None:
    print_lines(["", table.caption, ""])
    if table.rows:
        print_table(table.header, table.rows, numbers_from=1)
    else:
        print_lines(["no gold queries, so nothing is measured: put some in gold/gold_set.json (see the README)"])


def print_grid(grid: "Grid", *, numbers_from: int, caption: str = "") -> None:
    """A table below its caption, after an empty line; nothing if it has no rows."""
    header, rows = grid
    if rows:
        print_lines(["", caption, ""] if caption else [""])
        print_table(header, rows, numbers_from=numbers_from)


def print_gates(gates: "Sequence[Mapping[str, Any]]") -> None:
    """Each gate in a line; below, the queries won and lost of those that did not pass."""
    from librarian_pipeline.evaluation.showing_gates import SHOWN, failure_lines, outcome_of, warning_lines

    if gates:
        print_lines([""])
        print_table(["gate", "", ""], [[gate["gate"], outcome_of(gate), gate["message"]] for gate in gates])
        not_passed = [gate for gate in gates if not gate["passed"]]
        told = [*failure_lines(not_passed, None), *warning_lines(not_passed, SHOWN)]
        print_lines(["", *told] if told else [])


@contextmanager
def showing_progress(planned: "dict[str, float]") -> Iterator[ProgressReports]:
    """Bars on a terminal, a line now and then elsewhere; `planned` gives the totals that are known beforehand, by stage."""
    if not sys.stderr.isatty():
        yield LineProgress(planned)
        return
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=30),
        TextColumn("{task.completed:.0f} of {task.total:.0f} {task.fields[unit]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err()) as bars:
        yield BarProgress(bars, planned)


class _Totals:
    """Adds up the items of each stage."""

    def __init__(self, planned: "dict[str, float]") -> None:
        self._planned = planned
        self._items: dict[tuple[str, str], tuple[float, float]] = {}
        self._sums: dict[str, tuple[float, float]] = {}

    def add(self, stage: str, item: str, done: float, total: float) -> tuple[float, float]:
        before = self._items.get((stage, item), (0.0, 0.0))
        sums = self._sums.get(stage, (0.0, 0.0))
        self._items[stage, item] = (done, total)
        self._sums[stage] = (sums[0] + done - before[0], sums[1] + total - before[1])
        return self._sums[stage][0], max(self._sums[stage][1], self._planned.get(stage, 0))


class BarProgress:
    """One bar a stage."""

    def __init__(self, bars: Progress, planned: "dict[str, float]") -> None:
        self._bars = bars
        self._totals = _Totals(planned)
        self._tasks: dict[str, TaskID] = {}

    def report(self, stage: str, item: str, done: float, total: float, unit: str) -> None:
        all_done, all_total = self._totals.add(stage, item, done, total)
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, unit=unit, total=all_total)
        self._bars.update(self._tasks[stage], completed=all_done, total=all_total)


class LineProgress:
    """A line for a stage when it begins, then every quarter of a minute, and when all that was planned of it is done."""

    def __init__(self, planned: "dict[str, float]") -> None:
        self._planned = planned
        self._totals = _Totals(planned)
        self._said: dict[str, float] = {}

    def report(self, stage: str, item: str, done: float, total: float, unit: str) -> None:
        all_done, all_total = self._totals.add(stage, item, done, total)
        now = time.monotonic()
        ended = stage in self._planned and all_done >= all_total
        if ended or now - self._said.get(stage, -LINE_EVERY_S) >= LINE_EVERY_S:
            self._said[stage] = now
            print_lines([f"{stage}: {all_done:.0f} of {all_total:.0f} {unit}"], to_stderr=True)
