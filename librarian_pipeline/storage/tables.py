"""Reading the tables of a folder: of the warehouse, or of a published snapshot, which has the same layout."""

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.storage.record_memo import StoredFile, memo_of

WHOLE = "all"


class TableReader:
    """The tables below `root`: a folder each, in it a Parquet file for each partition."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.memo = memo_of(root.absolute())

    def path(self, table: str, partition: str | None = None) -> Path:
        return self.root / table / f"{partition or WHOLE}.parquet"

    def read(self, table: str, partition: str | None = None) -> pa.Table:
        """The rows of one file. Raises `FileNotFoundError` if it was never written."""
        return _rows(self.path(table, partition))

    def read_all(self, table: str, partitions: Iterable[str], schema: pa.Schema) -> pa.Table:
        """The columns of `schema` of some partitions, in their order; those never written, or not whole, have no rows."""
        paths = [self.path(table, partition) for partition in partitions if self.provenance(table, partition)]
        tables = [_rows(path, schema.names) for path in paths]
        return pa.concat_tables([table.replace_schema_metadata() for table in tables]) if tables else schema.empty_table()

    def provenance(self, table: str, partition: str | None = None) -> Provenance | None:
        """The record inside a file; None where there is no file, or one that isn't whole or isn't ours."""
        stored = self.stored_file(table, partition)
        return stored.record if stored else None

    def stored_file(self, table: str, partition: str | None = None) -> StoredFile | None:
        """The same, with what else the file tells of itself."""
        return self.memo.look_up(f"{table}/{partition or WHOLE}.parquet")

    def committed(self, asset: str, partition: str | None = None) -> Provenance | None:
        """The asset's record, if every table beside it is the one it was written with."""
        record = self.provenance(asset, partition)
        if record is None:
            return None
        for name, expected in record.beside.items():
            beside = self.provenance(name, partition)
            if beside is None or beside.content_hash != expected:
                return None
        return record

    def partitions(self, table: str) -> list[str]:
        """The partitions a table has files for, sorted (`all` for a table without partitions)."""
        return self._listed(table, ".parquet")

    def tables(self) -> list[str]:
        """The tables that have a folder."""
        folders = (path for path in self.root.iterdir() if path.is_dir()) if self.root.exists() else ()
        return sorted(path.name for path in folders if not path.name.startswith("."))

    def _listed(self, table: str, ending: str) -> list[str]:
        """The names of the table's files with that ending, without it."""
        try:
            with os.scandir(self.root / table) as entries:
                names = [entry.name for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name.removesuffix(ending) for name in names if name.endswith(ending) and not name.startswith("."))


def rows_in(file: bytes, columns: list[str]) -> pa.Table:
    """Of a file that is in memory."""
    return _rows(pa.BufferReader(file), columns)


def _rows(source: Path | pa.BufferReader, columns: list[str] | None = None) -> pa.Table:
    """Of one file. `pq.read_table` would scan a data set, in threads: where files are small and many, that takes longer."""
    with pq.ParquetFile(source) as file:
        return file.read(columns, use_threads=False)
