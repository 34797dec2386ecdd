"""Windows with severe flags are decoded once more, so that no three tokens repeat; which of the two passes is kept.

The rule: a pass is as bad as its worst flag, and among equals as the seconds that carry it. The second pass is kept if it is
less bad; the first is kept otherwise. A second pass without a word is kept only where next to nothing is heard or Whisper
itself doubts that there is speech, as otherwise a loop would be traded for a hole.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from librarian_pipeline.settings import CheckSettings
from librarian_pipeline.speech.flags import SEVERITY, content_flags, is_doubted
from librarian_pipeline.speech.rows import Row
from librarian_pipeline.speech.samples import MsSpan

DECODING_CHANGES: Final[Mapping[str, Any]] = {"no_repeat_ngram_size": 3}
NEXT_TO_NOTHING_MS = 1_000
# Some loops show only across windows: identical segments, one a window.
CONTEXT_WINDOWS = 5


def flagged_windows(windows: Sequence[Sequence[Row]], heard: Sequence[MsSpan], checks: CheckSettings) -> list[int]:
    """The numbers of the windows (each the rows of one) that deserve a second pass."""
    flags = iter(content_flags([row for rows in windows for row in rows], heard, checks))
    severe = [[next(flags) & SEVERITY.keys() for _ in rows] for rows in windows]
    return [number for number, found in enumerate(severe) if any(found)]


def with_second_pass(
    windows: Sequence[Sequence[Row]],
    again: Sequence[int],
    decode: Callable[[int], list[Row]],
    heard_in_window_ms: Callable[[int], int],
    heard: Sequence[MsSpan],
    checks: CheckSettings,
) -> list[list[Row]]:
    """The rows of each window from the pass that is kept. `decode` decodes the window of a number once more.

    `heard_in_window_ms` tells how much speech is heard in a window. Each is judged with its neighbours as they then are.
    """
    kept = [list(rows) for rows in windows]
    for number in again:
        second = decode(number)
        if not second and heard_in_window_ms(number) >= NEXT_TO_NOTHING_MS and not all(map(is_doubted, kept[number])):
            continue
        before = [row for rows in kept[max(0, number - CONTEXT_WINDOWS) : number] for row in rows]
        after = [row for rows in kept[number + 1 : number + 1 + CONTEXT_WINDOWS] for row in rows]

        def badness(rows: list[Row], before: list[Row] = before, after: list[Row] = after) -> tuple[int, int]:
            flags = content_flags([*before, *rows, *after], heard, checks)[len(before) : len(before) + len(rows)]
            return _badness(rows, flags)

        if badness(second) < badness(kept[number]):
            kept[number] = second
    return kept


def _badness(rows: Sequence[Row], flags: Sequence[set[str]]) -> tuple[int, int]:
    """The worst flag's severity, and the milliseconds of the segments that are as bad."""
    severities = [max((SEVERITY.get(flag, 0) for flag in found), default=0) for found in flags]
    worst = max(severities, default=0)
    carrying = [row for row, severity in zip(rows, severities, strict=True) if severity == worst and worst]
    return worst, sum(row["end_ms"] - row["start_ms"] for row in carrying)
