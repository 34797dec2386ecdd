"""Which passages a person means: one by its id, or those at a moment of an episode."""

import difflib
import heapq
import itertools
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from librarian_pipeline.archive.timecodes import MS_PER_SECOND, format_timecode, parse_timecode
from librarian_pipeline.errors import UsageError
from librarian_pipeline.retrieval.indexing import no_index
from librarian_pipeline.storage.schemas import CHUNKS
from librarian_pipeline.storage.warehouse import Warehouse

Row = dict[str, Any]

# A citation that is pasted whole names a moment as well.
_MOMENT = re.compile(r"(?:Ep\.\s*)?(?P<episode>\S+?)\s*@\s*(?P<time>\S+)")
_HOW_TO_NAME = "name a passage, such as ep03:t004, or a moment, such as ep03@08:03"


def locate(warehouse: Warehouse, asked: str) -> list[Row]:
    """The rows of `chunks` that `ep03:t004`, `ep03@08:03` or `Ep. ep03 @ 08:03` means; of a moment there may be several.

    Raises `UsageError` naming what is nearest, if there are none.
    """
    known = warehouse.partitions("chunks")
    if not known:
        raise no_index(warehouse)
    if moment := _MOMENT.fullmatch(asked.strip()):
        return _at_moment(_rows_of(warehouse, moment["episode"], known), moment["episode"], moment["time"])
    episode, colon, _ = asked.strip().rpartition(":")
    if not colon:
        raise UsageError(f"{asked!r} is no passage", _HOW_TO_NAME)
    rows = _rows_of(warehouse, episode, known)
    found = [row for row in rows if row["chunk_id"] == asked.strip()]
    if not found:
        raise UsageError(f"{episode} has no passage {asked!r}", _ranges(rows))
    return found


def _rows_of(warehouse: Warehouse, episode: str, known: Sequence[str]) -> list[Row]:
    if episode not in known:
        raise UsageError(f"no passages of an episode {episode!r} were derived", nearest(episode, known))
    rows: list[Row] = warehouse.read_all("chunks", [episode], CHUNKS).to_pylist()
    if not rows:
        home = shlex.quote(str(warehouse.root.parent))
        raise UsageError(f"{episode} has no passages", f"`librarian episodes --home {home}` says what became of it")
    return rows


def _at_moment(rows: Sequence[Row], episode: str, time: str) -> list[Row]:
    """The passages within the second: citations drop its parts."""
    try:
        moment_ms = parse_timecode(time)
    except ValueError as error:
        raise UsageError(str(error), _HOW_TO_NAME) from error
    timed = [row for row in rows if row["start_ms"] is not None]
    found = [row for row in timed if row["start_ms"] < moment_ms + MS_PER_SECOND and _end_ms(row) > moment_ms]
    if found:
        return found
    message = f"{episode} has no passage at {time}"
    if not timed:
        raise UsageError(message, f"none of its passages has a time; {_ranges(rows)}")
    closest = min(timed, key=lambda row: max(row["start_ms"] - moment_ms, moment_ms - _end_ms(row)))
    raise UsageError(message, f"the nearest is {closest['chunk_id']} at {format_timecode(closest['start_ms'])}")


def _end_ms(row: Row) -> int:
    """A timed note is a point on the timeline."""
    return int(max(row["end_ms"] or 0, row["start_ms"] + 1))


def _ranges(rows: Iterable[Row]) -> str:
    """`it has ep03:n000 to ep03:n005, ep03:t000 to ep03:t003`."""
    by_layer = itertools.groupby((row["chunk_id"] for row in rows), key=lambda chunk_id: chunk_id.rpartition(":")[2][0])
    layers = [list(group) for _, group in by_layer]
    return f"it has {', '.join(ids[0] if len(ids) == 1 else f'{ids[0]} to {ids[-1]}' for ids in layers)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """The three that are most like a name; of those that are equally like it, the first."""
    likeness = difflib.SequenceMatcher(b=name)

    def unlikeness(other: str) -> tuple[float, str]:
        likeness.set_seq1(other)
        return -likeness.ratio(), other

    return f"did you mean {' or '.join(heapq.nsmallest(3, known, key=unlikeness))}?"
