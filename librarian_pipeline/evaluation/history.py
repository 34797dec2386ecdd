"""All scores ever measured, with when and of what: `warehouse/eval_history/`, which only ever grows.

A measurement is a small Parquet file of its own, named by its time and the fingerprint of what was measured, so that a
writer that is killed harms no other. When many have gathered, they are put together by month. Nothing is derived from the
history, and it can't be derived again: it is the one thing in the warehouse that is lost when that is deleted.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock

from librarian_pipeline.storage.provenance import Recipe, fingerprint
from librarian_pipeline.storage.schemas import EVAL_HISTORY
from librarian_pipeline.storage.warehouse import Warehouse

TABLE = "eval_history"
MOST_SINGLE = 64
"""Files of one measurement each; beyond this they are put together."""
ATTEMPTS = 5
"""How often the files are listed anew because some were put together while they were read."""
TOLERANCE = 1e-6
_SINGLE = re.compile(r"\d{8}T.*")


def record_measurement(
    warehouse: Warehouse,
    scores: pa.Table,
    *,
    recipe: Recipe,
    inputs: Mapping[str, str],
    data_version: str,
    trigger: str,
    now: datetime | None = None,
) -> str | None:
    """Adds rows of `schemas.EVAL_SCORES` as a measurement, and returns its id; None where nothing was measured.

    `data_version` is that of the whole output; `trigger` says who asked for it.
    """
    if scores.num_rows == 0:
        return None
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    of = fingerprint({"recipe": dict(recipe), "inputs": dict(inputs)})
    measurement = f"{moment:%Y%m%dT%H%M%S.%fZ}-{of}"
    constants = {
        "measurement": measurement,
        "measured_at": f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}",
        "fingerprint": of,
        "data_version": data_version,
        "trigger": trigger,
        "batch": measurement,
    }
    columns = {name: pa.array([value] * scores.num_rows, pa.string()) for name, value in constants.items()}
    columns |= {name: scores.column(name) for name in EVAL_HISTORY.names if name not in constants}
    _write(warehouse, measurement, pa.table({name: columns[name] for name in EVAL_HISTORY.names}, schema=EVAL_HISTORY))
    if len(_single(warehouse)) > MOST_SINGLE:
        compact(warehouse)
    return measurement


def _write(warehouse: Warehouse, batch: str, rows: pa.Table) -> None:
    warehouse.write(TABLE, batch, rows, recipe={}, inputs={})


def _single(warehouse: Warehouse) -> list[str]:
    return [name for name in warehouse.partitions(TABLE) if _SINGLE.fullmatch(name)]


def compact(warehouse: Warehouse) -> None:
    """Puts the files of single measurements together, a file a month.

    Killed in between, it leaves measurements in two files. They are read once, and the next time tidies up.
    """
    (warehouse.root / ".locks").mkdir(parents=True, exist_ok=True)
    with FileLock(warehouse.root / ".locks" / f"{TABLE}.lock"):
        by_month: dict[str, list[str]] = {}
        for name in _single(warehouse):
            if warehouse.provenance(TABLE, name):  # a damaged file is left for a person to look at
                by_month.setdefault(f"{name[:4]}-{name[4:6]}", []).append(name)
        for month, names in by_month.items():
            together = _without_repeats([warehouse.read_all(TABLE, [name], EVAL_HISTORY) for name in (month, *names)])
            batch = pa.array([month] * together.num_rows, pa.string())
            together = together.set_column(together.schema.get_field_index("batch"), "batch", batch)
            # So that a reader of one slice can pass over most of the file.
            order = [(name, "ascending") for name in ("slice", "metric", "measurement", "mode")]
            _write(warehouse, month, together.sort_by(order))
            for name in names:
                warehouse.drop(TABLE, name)


def _without_repeats(tables: Sequence[pa.Table]) -> pa.Table:
    """One after the other, each without the measurements that an earlier one holds."""
    kept: list[pa.Table] = []
    seen: set[str] = set()
    for table in tables:
        ids = set(pc.unique(table.column("measurement")).to_pylist())
        if ids & seen:
            table = table.filter(pc.invert(pc.is_in(table.column("measurement"), pa.array(sorted(seen), pa.string()))))
        kept.append(table)
        seen |= ids
    return pa.concat_tables(kept) if kept else EVAL_HISTORY.empty_table()


def read_history(
    warehouse: Warehouse, *, slices: Sequence[str] = ("all",), metrics: Sequence[str] | None = None
) -> pa.Table:
    """The rows of some slices and metrics (all metrics if None), by time; columns as in `schemas.EVAL_HISTORY`."""
    chosen = [("slice", "in", list(slices)), *([("metric", "in", list(metrics))] if metrics is not None else [])]
    for attempts_left in reversed(range(ATTEMPTS)):
        try:
            tables = [_read(warehouse, name, chosen) for name in _months_first(warehouse)]
            break
        except FileNotFoundError:
            if not attempts_left:
                raise
    rows = _without_repeats(tables)
    return rows.sort_by([(name, "ascending") for name in ("measurement", "metric", "slice", "mode")])


def _months_first(warehouse: Warehouse) -> list[str]:
    return sorted(warehouse.partitions(TABLE), key=lambda name: (bool(_SINGLE.fullmatch(name)), name))


def _read(warehouse: Warehouse, name: str, chosen: list[tuple[str, str, list[str]]]) -> pa.Table:
    try:
        table = pq.read_table(warehouse.path(TABLE, name), columns=EVAL_HISTORY.names, filters=chosen, partitioning=None)
    except (pa.ArrowInvalid, pa.ArrowKeyError):  # damaged, or of another making
        return EVAL_HISTORY.empty_table()
    return table.replace_schema_metadata().cast(EVAL_HISTORY)


def last_measurements(history: pa.Table, most: int) -> pa.Table:
    """The rows of the last measurements; `history` is as `read_history` gives it."""
    ids = pc.unique(history.column("measurement")).to_pylist()
    return _of(history, ids[-most:])


def _of(history: pa.Table, measurements: Sequence[str]) -> pa.Table:
    return history.filter(pc.is_in(history.column("measurement"), pa.array(measurements, pa.string())))


def unexplained_changes(history: pa.Table) -> list[str]:
    """A line for each figure of the last measurement that is another than the last time that the same was measured.

    `history` is as `read_history` gives it.
    """
    last = last_measurements(history, 1)
    if last.num_rows == 0:
        return []
    same = history.filter(pc.equal(history.column("fingerprint"), last.column("fingerprint")[0]))
    pair = last_measurements(same, 2).to_pylist()
    now = last.column("measurement")[0].as_py()
    before = {_figure(row): row for row in pair if row["measurement"] != now}
    changed = [
        (before[_figure(row)], row)
        for row in pair
        if row["measurement"] == now
        and _figure(row) in before
        and abs(row["value"] - before[_figure(row)]["value"]) > TOLERANCE
    ]
    return [f"{_figure(row)}: {old['value']:.4f} at {old['measured_at']}, now {row['value']:.4f}" for old, row in changed]


def _figure(row: Mapping[str, Any]) -> str:
    return f"{row['mode']} {row['metric']}" + (f" of {row['slice']}" if row["slice"] != "all" else "")
