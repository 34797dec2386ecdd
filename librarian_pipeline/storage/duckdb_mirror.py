"""`warehouse/librarian.duckdb`: the rows of the Parquet files, for people with SQL.

The mirror is derived: it is brought up to date from the Parquet files by content hash, and may be deleted at any time.
DuckDB lets one process write and none read meanwhile, so writers queue at a file lock, and a mirror that somebody holds open
is left for the next refresh.
"""

import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from librarian_pipeline.storage.warehouse import Warehouse

DATABASE = "librarian.duckdb"
LEDGER = "_mirrored"
CONNECT_PATIENCE_S = 5.0

# How a row tells its partition, for the tables that have partitions. The others have one file, and it is the whole table.
PARTITION_EXPRESSIONS = {
    "audio": "episode_id",
    "notes": "episode_id",
    "transcripts": "episode_id",
    "chunks": "episode_id",
    "embeddings": "split_part(chunk_id, ':', 1)",
}


class MirrorBusyError(Exception):
    """Another program holds the database open."""


def refresh(warehouse: Warehouse, tables: list[str] | None = None) -> None:
    """Makes the database equal to the Parquet files of `tables` (all of them by default).

    Raises `MirrorBusyError` if another program keeps the database open; the next refresh then catches up.
    """
    database = warehouse.root / DATABASE
    with FileLock(warehouse.root / ".duckdb.lock"):
        try:
            _refresh(database, warehouse, tables)
        except duckdb.Error:
            # Not a database, or a damaged one: it holds nothing that the Parquet files don't.
            for path in (database, database.with_name(f"{DATABASE}.wal")):
                path.unlink(missing_ok=True)
            _refresh(database, warehouse, None)


def _refresh(database: Path, warehouse: Warehouse, tables: list[str] | None) -> None:
    with _connect(database) as connection:
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {LEDGER} (table_name TEXT, partition TEXT, content_hash TEXT)"
        ).fetchall()
        for table in tables if tables is not None else _all_tables(connection, warehouse):
            _refresh_table(connection, warehouse, table)


def is_current(warehouse: Warehouse) -> bool:
    """Whether the database holds what the Parquet files hold. Raises `MirrorBusyError` like `refresh`."""
    if not (warehouse.root / DATABASE).exists():
        return False
    with FileLock(warehouse.root / ".duckdb.lock"):
        try:
            with _connect(warehouse.root / DATABASE) as connection:
                if not _has_table(connection, LEDGER):
                    return False
                tables = _all_tables(connection, warehouse)
                return all(_mirrored(connection, table) == _stored(warehouse, table) for table in tables)
        except duckdb.Error:  # damaged: the next refresh makes it anew
            return False


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    deadline = time.monotonic() + CONNECT_PATIENCE_S
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


def _refresh_table(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, table: str) -> None:
    stored, mirrored = _stored(warehouse, table), _mirrored(connection, table)
    if stored == mirrored:
        return
    connection.begin()
    if stored:
        rows = pq.read_schema(warehouse.path(table, next(iter(stored)))).remove_metadata().empty_table()
        if not _has_columns_of(connection, table, rows):
            _recreate(connection, table, rows)
            mirrored = {}
    for partition in mirrored.keys() - stored.keys():
        _delete(connection, table, partition)
    for partition, content_hash in stored.items():
        if mirrored.get(partition) != content_hash:
            _delete(connection, table, partition)
            rows = pq.read_table(warehouse.path(table, partition), partitioning=None)
            connection.register("rows", rows)
            connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM rows").fetchall()
            connection.unregister("rows")
            connection.execute(f"INSERT INTO {LEDGER} VALUES (?, ?, ?)", [table, partition, content_hash]).fetchall()
    connection.commit()


def _stored(warehouse: Warehouse, table: str) -> dict[str, str]:
    """Content hash by partition; only the files with the columns of the one written last.

    While a model is being switched, files of two vector sizes stand side by side, and one table can't hold both.
    """
    records = {name: record for name in warehouse.partitions(table) if (record := warehouse.provenance(table, name))}
    if not records:
        return {}
    paths = {partition: warehouse.path(table, partition) for partition in records}
    schemas = {partition: pq.read_schema(path).remove_metadata() for partition, path in paths.items()}
    latest = max(paths, key=lambda partition: paths[partition].stat().st_mtime_ns)
    return {name: record.content_hash for name, record in records.items() if schemas[name].equals(schemas[latest])}


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


def _has_columns_of(connection: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> bool:
    if not _has_table(connection, table):
        return False
    connection.register("rows", rows)
    want = connection.execute("DESCRIBE rows").fetchall()
    connection.unregister("rows")
    return connection.execute(f"DESCRIBE {table}").fetchall() == want


def _recreate(connection: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    connection.register("rows", rows)
    connection.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM rows").fetchall()
    connection.unregister("rows")
    connection.execute(f"DELETE FROM {LEDGER} WHERE table_name = ?", [table]).fetchall()


def _delete(connection: duckdb.DuckDBPyConnection, table: str, partition: str) -> None:
    if table in PARTITION_EXPRESSIONS:
        connection.execute(f"DELETE FROM {table} WHERE {PARTITION_EXPRESSIONS[table]} = ?", [partition]).fetchall()
    else:
        connection.execute(f"DELETE FROM {table}").fetchall()
    connection.execute(f"DELETE FROM {LEDGER} WHERE table_name = ? AND partition = ?", [table, partition]).fetchall()
