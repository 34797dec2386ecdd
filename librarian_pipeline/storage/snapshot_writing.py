"""Writes a snapshot into a folder of its own: copies of Parquet files, a database with the same rows, and the manifest."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from librarian_pipeline.errors import LibrarianError
from librarian_pipeline.storage.atomic import flush_to_disk
from librarian_pipeline.storage.content import content_hash
from librarian_pipeline.storage.manifest import MANIFEST, FileDigest, Manifest, outputs_of, snapshot_id
from librarian_pipeline.storage.provenance import PARQUET_KEY, Provenance
from librarian_pipeline.storage.snapshot import sha256_of
from librarian_pipeline.storage.tables import TableReader

DATABASE = "librarian.duckdb"
FILES_AT_ONCE = 100
"""Of one table: what bounds how many rows are in memory."""
READ_ONLY = 0o444
"""Programs that would open the database for writing are refused, and so don't turn it into something else."""


def write_snapshot(source: TableReader, records: Sequence[Provenance], search: Mapping[str, Any], folder: Path) -> None:
    """Writes all of it to disk; `folder` is made. `records` are the outputs to copy, with the tables beside them.

    Every table is held against the content hash of its record. Raises `LibrarianError` if one is another.
    """
    folder.mkdir(parents=True)
    files: dict[str, FileDigest] = {}
    rows: dict[str, int] = {}
    with duckdb.connect(folder / DATABASE) as database:
        database.execute("SET enable_progress_bar = false").fetchall()
        inserts = _Inserts(database)
        for record in records:
            for name, expected in _tables_of(record):
                data, table = _read(source, name, record, expected)
                copy = source.path(name, record.partition).relative_to(source.root)
                files[copy.as_posix()] = _write(folder / copy, data, table.num_rows)
                rows[name] = rows.get(name, 0) + table.num_rows
                inserts.add(name, table)
        inserts.finish()
        database.execute("CHECKPOINT").fetchall()
    if (folder / f"{DATABASE}.wal").exists():
        raise LibrarianError("DuckDB left a part of the snapshot's database in a file of its own", "try again")
    files[DATABASE] = _finish(folder / DATABASE)
    manifest = Manifest(
        id=snapshot_id(records, search),
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        search=dict(search),
        outputs=outputs_of(records),
        recipes={record.recipe_fingerprint: record.recipe for record in records},
        rows=rows,
        files=files,
    )
    _write(folder / MANIFEST, manifest.to_json().encode())
    for path in (*(path for path in folder.iterdir() if path.is_dir()), folder):
        flush_to_disk(path)


def _tables_of(record: Provenance) -> Iterator[tuple[str, str]]:
    """The asset's own table and those beside it, each with its content hash."""
    yield record.asset, record.content_hash
    yield from record.beside.items()


def _read(source: TableReader, name: str, record: Provenance, expected: str) -> tuple[bytes, pa.Table]:
    path = source.path(name, record.partition)
    try:
        data = path.read_bytes()
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            table = file.read()
        inside = Provenance.from_json((table.schema.metadata or {})[PARQUET_KEY])
        is_as_recorded = inside.content_hash == content_hash(table) == expected
    except (OSError, ValueError, TypeError, KeyError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise LibrarianError(f"{path} can't be read ({' '.join(str(error).split())})", _mend(path)) from error
    if inside.content_hash != expected:
        raise LibrarianError(f"{path} was replaced while it was published", "run `librarian run` again")
    if not is_as_recorded:
        raise LibrarianError(f"{path} is damaged: its rows are not those that were written", _mend(path))
    return data, table.replace_schema_metadata()


def _mend(path: Path) -> str:
    return f"delete {path} and run `librarian run`, which derives it anew"


class _Inserts:
    """Puts the rows of many files into the database, some files at a time: a statement takes as long for one as for many."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database
        self._waiting: dict[str, list[pa.Table]] = {}

    def add(self, name: str, rows: pa.Table) -> None:
        waiting = self._waiting.setdefault(name, [])
        if waiting and (len(waiting) == FILES_AT_ONCE or not waiting[0].schema.equals(rows.schema)):
            self._insert(name)
        self._waiting.setdefault(name, []).append(rows)

    def finish(self) -> None:
        for name in list(self._waiting):
            self._insert(name)

    def _insert(self, name: str) -> None:
        self._database.register("rows", pa.concat_tables(self._waiting.pop(name)))
        self._database.execute(f'CREATE TABLE IF NOT EXISTS "{name}" AS SELECT * FROM rows LIMIT 0').fetchall()
        self._database.execute(f'INSERT INTO "{name}" BY NAME SELECT * FROM rows').fetchall()
        self._database.unregister("rows")


def _write(path: Path, data: bytes, rows: int | None = None) -> FileDigest:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    path.chmod(READ_ONLY)
    flush_to_disk(path)
    return FileDigest(len(data), hashlib.sha256(data).hexdigest(), rows)


def _finish(path: Path) -> FileDigest:
    path.chmod(READ_ONLY)
    flush_to_disk(path)
    return FileDigest(path.stat().st_size, sha256_of(path))
