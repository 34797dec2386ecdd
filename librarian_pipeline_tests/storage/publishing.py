"""Small snapshots to publish and read: every table of one number holds that number, so that a mixture shows."""

from pathlib import Path

import pyarrow as pa

from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.storage.snapshot import Snapshot
from librarian_pipeline.storage.snapshots import Snapshots
from librarian_pipeline.storage.warehouse import Warehouse

KEEP = 3
SEARCH = {"fusion.c": 60, "default_mode": "hybrid"}
TABLES = {"scores": None, "rankings": None, "passages": "ep01"}
"""Each with its partition; `rankings` lies beside `scores`."""


def snapshots_at(home: Path) -> Snapshots:
    return Snapshots(home / "published", KEEP)


def records_of(warehouse: Warehouse, number: int) -> list[Provenance]:
    """Stores outputs that hold that number."""
    rows = pa.table({"number": [number] * 50})
    inputs = {"file": str(number)}
    return [
        warehouse.write("passages", "ep01", rows, recipe={"code": 1}, inputs=inputs),
        warehouse.write("scores", None, rows, recipe={"code": 2}, inputs=inputs, beside={"rankings": rows}),
    ]


def publish(home: Path, number: int) -> str:
    """Publishes that number, from a warehouse of its own; returns the snapshot's name."""
    snapshots, warehouse = snapshots_at(home), Warehouse(home / f"warehouse-{number}")
    with snapshots.locked():
        snapshot = snapshots.build(warehouse, records_of(warehouse, number), SEARCH)
        snapshots.serve(snapshot)
    return snapshot.id


def numbers_in(snapshot: Snapshot) -> set[int]:
    """Of all rows of all its tables."""
    columns = [snapshot.tables.read(table, partition).column("number") for table, partition in TABLES.items()]
    return {number for column in columns for number in column.to_pylist()}
