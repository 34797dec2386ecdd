"""Ratios of two ways to do the same, taken in turns, since the load of a machine drifts during a run; and plain figures."""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Line:
    """A line of the table. `ratio` is ours to the reference's, the median over the rounds; below 1 is faster."""

    benchmark: str
    case: str
    ours_ms: float
    reference_ms: float
    ratio: float
    lowest: float
    highest: float
    rounds: int

    @classmethod
    def of(cls, benchmark: str, case: str, ours_s: list[float], reference_s: list[float]) -> "Line":
        """From the seconds of each round."""
        ratios = [ours / reference for ours, reference in zip(ours_s, reference_s, strict=True)]
        return cls(
            benchmark,
            case,
            statistics.median(ours_s) * 1_000,
            statistics.median(reference_s) * 1_000,
            statistics.median(ratios),
            min(ratios),
            max(ratios),
            len(ratios),
        )


@dataclass(frozen=True)
class Figure:
    """A line of the table of figures that are no ratio, each with the bound that it is held against."""

    benchmark: str
    case: str
    measured: str
    bound: str


def timed(function: Callable[[], Result]) -> tuple[float, Result]:
    """The seconds that a call takes, and what it returns."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def compare(benchmark: str, case: str, ours: Callable[[], object], reference: Callable[[], object], rounds: int) -> Line:
    """Times both `rounds` times, in turns, with the one that goes first changing from round to round."""
    ours_s: list[float] = []
    reference_s: list[float] = []
    gc.collect()
    for number in range(rounds):
        turns = [(ours, ours_s), (reference, reference_s)]
        for function, seconds in turns if number % 2 == 0 else reversed(turns):
            seconds.append(timed(function)[0])
    return Line.of(benchmark, case, ours_s, reference_s)


def as_markdown(lines: list[Line]) -> str:
    """The lines as a Markdown table."""
    head = "| benchmark | case | ratio (lowest-highest) | ours, ms | reference, ms | rounds |\n|---|---|---|---|---|---|"
    return "\n".join([head, *(_row(line) for line in lines)])


def figures_as_markdown(figures: list[Figure]) -> str:
    """The figures as a Markdown table."""
    head = "| benchmark | case | measured | bound |\n|---|---|---|---|"
    rows = [f"| {found.benchmark} | {found.case} | **{found.measured}** | {found.bound} |" for found in figures]
    return "\n".join([head, *rows])


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _row(line: Line) -> str:
    ratio = f"**{_figure(line.ratio)}** ({_figure(line.lowest)}-{_figure(line.highest)})"
    cells = [line.benchmark, line.case, ratio, _figure(line.ours_ms), _figure(line.reference_ms), str(line.rounds)]
    return f"| {' | '.join(cells)} |"
