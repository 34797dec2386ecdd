"""`warehouse/librarian.duckdb`: the rows of the Parquet files, for people with SQL.

The mirror is derived: it is brought up to date from the Parquet files by content hash, and may be deleted at any time.
DuckDB lets one process write and none read meanwhile, so writers queue at a file lock, and a mirror that somebody holds open
is left for the next refresh.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
from filelock import FileLock

from librarian_pipeline.storage.tables import WHOLE
from librarian_pipeline.storage.warehouse import Warehouse

DATABASE = "librarian.duckdb"
LEDGER = "_mirrored"
CONNECT_PATIENCE_S = 5.0
# In a step the mirror is not worth waiting for: the end of the run catches up.
STEP_PATIENCE_S = 0.2
PARTITIONS_AT_ONCE = 200
"""In one transaction, and in memory."""

# How a row tells its partition, for the tables that have partitions. The others have one file, and it is the whole table.
PARTITION_EXPRESSIONS = {
    "audio": "episode_id",
    "notes": "episode_id",
    "transcripts": "episode_id",
    "speech_spans": "episode_id",
    "chunks": "episode_id",
    "embeddings": "split_part(chunk_id, ':', 1)",
    "eval_history": "batch",
}


class MirrorBusyError(Exception):
    """Another program holds the database open."""


def refresh(warehouse: Warehouse) -> None:
    """Makes the database equal to all Parquet files.

    Raises `MirrorBusyError` if another program keeps the database open; the next refresh then catches up.
    """
    _write(warehouse, lambda connection: _refresh_all(connection, warehouse), CONNECT_PATIENCE_S)


def refresh_partitions(
    warehouse: Warehouse, tables: list[str], partition: str | None, whole_tables: Iterable[str] = ()
) -> None:
    """The same for one partition of some tables, and for all of others: what a step has written. Raises like `refresh`."""

    def work(connection: duckdb.DuckDBPyConnection) -> None:
        for table in tables:
            _replace(connection, warehouse, table, [partition or WHOLE])
        for table in whole_tables:
            _refresh_table(connection, warehouse, table)

    _write(warehouse, work, STEP_PATIENCE_S)


def _write(warehouse: Warehouse, work: Callable[[duckdb.DuckDBPyConnection], None], patience_s: float) -> None:
    """Does the work, one writer at a time. A damaged database is put aside, and made anew from the Parquet files."""
    database = warehouse.root / DATABASE
    with FileLock(warehouse.root / ".duckdb.lock"):
        try:
            _work_in(database, work, patience_s)
        except duckdb.Error as error:
            if isinstance(error, duckdb.OutOfMemoryException) or "No space left" in str(error):
                raise
            for path in (database, database.with_name(f"{DATABASE}.wal")):
                if path.exists():
                    path.replace(path.with_name(f"{path.name}.damaged"))
            _work_in(database, lambda connection: _refresh_all(connection, warehouse), patience_s)


def _work_in(database: Path, work: Callable[[duckdb.DuckDBPyConnection], None], patience_s: float) -> None:
    with _connect(database, patience_s) as connection:
        columns = "table_name TEXT, partition TEXT, content_hash TEXT"
        connection.execute(f"CREATE TABLE IF NOT EXISTS {LEDGER} ({columns})").fetchall()
        work(connection)


def _refresh_all(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse) -> None:
    for table in _all_tables(connection, warehouse):
        _refresh_table(connection, warehouse, table)


def _refresh_table(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, table: str) -> None:
    stored = _stored(warehouse, table)
    # Twice: where the first ones bring other columns, the table is made anew, and all are due.
    for _ in range(2):
        mirrored = _mirrored(connection, table)
        due = [partition for partition, content_hash in stored.items() if mirrored.get(partition) != content_hash]
        for part in _parts(due):
            _replace(connection, warehouse, table, part)
    _delete(connection, table, sorted(mirrored.keys() - stored.keys()))


def is_current(warehouse: Warehouse) -> bool:
    """Whether the database holds what the Parquet files hold. Raises `MirrorBusyError` like `refresh`."""
    if not (warehouse.root / DATABASE).exists():
        return False
    with FileLock(warehouse.root / ".duckdb.lock"):
        try:
            with _connect(warehouse.root / DATABASE, CONNECT_PATIENCE_S) as connection:
                if not _has_table(connection, LEDGER):
                    return False
                tables = _all_tables(connection, warehouse)
                return all(_mirrored(connection, table) == _stored(warehouse, table) for table in tables)
        except duckdb.Error:  # damaged: the next refresh makes it anew
            return False


def _connect(path: Path, patience_s: float) -> duckdb.DuckDBPyConnection:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return duckdb.connect(path)
        except (duckdb.IOException, duckdb.ConnectionException) as error:
            # Another process holds it, or this one in another way. Not just "lock": damage is told by "block".
            if "Could not set lock" not in str(error) and not isinstance(error, duckdb.ConnectionException):
                raise
            if time.monotonic() > deadline:
                raise MirrorBusyError(f"{path} is open in another program") from error
            time.sleep(0.1)


def _replace(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, table: str, partitions: Sequence[str]) -> None:
    """Makes the rows of these partitions those of their files. The next refresh sees to what another process is at."""
    records = {name: record for name in partitions if (record := warehouse.provenance(table, name))}
    tables = {name: warehouse.read(table, name).replace_schema_metadata() for name in records}
    alike = [name for name, rows in tables.items() if rows.schema.equals(next(iter(tables.values())).schema)]
    if not alike:
        return
    connection.begin()
    connection.register("rows", pa.concat_tables([tables[name] for name in alike]))
    if not _has_columns_of(connection, table):
        _recreate(connection, table)
    _delete(connection, table, alike)
    connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM rows").fetchall()
    entries = {"table": [table] * len(alike), "name": alike, "hash": [records[name].content_hash for name in alike]}
    connection.register("entries", pa.table(entries))
    connection.execute(f"INSERT INTO {LEDGER} SELECT * FROM entries").fetchall()
    connection.unregister("entries")
    connection.unregister("rows")
    connection.commit()


def _stored(warehouse: Warehouse, table: str) -> dict[str, str]:
    """Content hash by partition; only the files with the columns of the one written last.

    While a model is being switched, files of two vector sizes stand side by side, and one table can't hold both.
    """
    files = {name: file for name in warehouse.partitions(table) if (file := warehouse.stored_file(table, name))}
    if not files:
        return {}
    latest = max(files.values(), key=lambda file: file.changed_ns)
    return {name: file.record.content_hash for name, file in files.items() if file.columns == latest.columns}


def _all_tables(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse) -> list[str]:
    """Those that are stored, and those that were once mirrored: their files may be gone."""
    mirrored = connection.execute(f"SELECT DISTINCT table_name FROM {LEDGER}").fetchall()
    return sorted({*warehouse.tables(), *(name for (name,) in mirrored)})


def _mirrored(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    rows = connection.execute(f"SELECT partition, content_hash FROM {LEDGER} WHERE table_name = ?", [table]).fetchall()
    return dict(rows)


def _has_table(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    query = "SELECT table_name FROM duckdb_tables() WHERE table_name = ?"
    return bool(connection.execute(query, [table]).fetchall())


def _has_columns_of(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    """Whether the table has the columns of the registered `rows`."""
    if not _has_table(connection, table):
        return False
    return connection.execute(f"DESCRIBE {table}").fetchall() == connection.execute("DESCRIBE rows").fetchall()


def _recreate(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    connection.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM rows LIMIT 0").fetchall()
    connection.execute(f"DELETE FROM {LEDGER} WHERE table_name = ?", [table]).fetchall()


def _delete(connection: duckdb.DuckDBPyConnection, table: str, partitions: Sequence[str]) -> None:
    if not partitions:
        return
    marks = ", ".join("?" * len(partitions))
    if table in PARTITION_EXPRESSIONS:
        connection.execute(f"DELETE FROM {table} WHERE {PARTITION_EXPRESSIONS[table]} IN ({marks})", partitions).fetchall()
    else:
        connection.execute(f"DELETE FROM {table}").fetchall()
    forget = f"DELETE FROM {LEDGER} WHERE table_name = ? AND partition IN ({marks})"
    connection.execute(forget, [table, *partitions]).fetchall()


def _parts(partitions: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
        yield partitions[start : start + PARTITIONS_AT_ONCE]
