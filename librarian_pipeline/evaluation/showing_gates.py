"""Gates as lines for people: what failed, which queries were lost and won, and what stands first in their place."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from librarian_pipeline.checks import Severity
from librarian_pipeline.checks.gates import is_failure

Gate = Mapping[str, Any]
"""A row of `schemas.GATES`."""

SHOWN = 10
"""So many queries that were lost, of each gate: the table `gates` has all."""


def failure_lines(gates: Iterable[Gate], shown: int | None = SHOWN) -> Iterator[str]:
    """Of each gate that failed: its message, and the queries lost; with `shown` None, all of them, and those won."""
    for gate in gates:
        if is_failure(gate):
            yield f"gate {gate['gate']} failed: {gate['message']}"
            yield from _detail_lines(gate["details"], shown)


def warning_lines(gates: Iterable[Gate], shown: int = 0) -> list[str]:
    """Of each gate that only warns, or that could not look; what several say is said once."""
    lines: dict[str, None] = {}
    for gate in gates:
        if gate["severity"] == Severity.WARN:
            lines[gate["message"] if gate["passed"] else f"gate {gate['gate']}: {gate['message']}"] = None
            lines |= dict.fromkeys(_detail_lines(gate["details"], shown) if shown else ())
    return list(lines)


def _detail_lines(details: Sequence[Mapping[str, Any]], shown: int | None) -> Iterator[str]:
    if shown is None:
        yield from (f"  {detail_line(detail)}" for detail in details)
        return
    lost = [detail for detail in details if detail["change"] != "won"]
    yield from (f"  {detail_line(detail)}" for detail in lost[:shown])
    left = [f"{len(lost) - shown} more"] if len(lost) > shown else []
    won = [f"{len(details) - len(lost)} won"] if len(lost) < len(details) else []
    if left or won:
        yield f"  and {', '.join([*left, *won])}: the table `gates` has them all"


def detail_line(detail: Mapping[str, Any]) -> str:
    """`lost q017 "how fast do electrons drift" in hybrid: rank 1 -> 7; first is now Ep. ep03 @ 08:03 (ep03:t004)`."""
    told, query = f"{detail['change']} {detail['query_id']}", " ".join(detail["query"].split())
    if detail["mode"] is None:
        return f"{told}: {query}"
    old = f"{detail['old_rank']} -> " if detail["old_rank"] is not None else ""
    return f'{told} "{query}" in {detail["mode"]}: rank {old}{detail["new_rank"]}; first is now {detail["now_first"]}'


def outcome_of(gate: Gate) -> str:
    """`passed`, `FAILED` or `warning`."""
    if is_failure(gate):
        return "FAILED"
    return "warning" if not gate["passed"] or gate["severity"] == Severity.WARN else "passed"
