"""The warehouse: one Parquet file for each partition of each table, written whole or not at all.

Parquet is the truth. A table's folder is `warehouse/<table>/`, a file in it `<partition>.parquet`, or `all.parquet` for a
table without partitions. An asset's own table is written last and lists the tables beside it by content hash: it is the
commit point of the step. A source that can't be read leaves a record of the failure, and the earlier output stays.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from librarian_pipeline.storage import atomic
from librarian_pipeline.storage.content import content_hash
from librarian_pipeline.storage.provenance import PARQUET_KEY, Provenance, Recipe
from librarian_pipeline.storage.record_memo import StoredFile, memo_of

WHOLE = "all"
CACHE = ".cache"
FAILED = ".failed.json"


@dataclass(frozen=True)
class Failure:
    """Why an output couldn't be derived from these inputs by this recipe; the same attempt would fail again."""

    recipe_fingerprint: str
    inputs: Mapping[str, str]
    message: str
    fix: str

    @property
    def line(self) -> str:
        return f"{self.message}: {self.fix}" if self.fix else self.message


class Warehouse:
    """Reads and writes the tables below `root`. What is dear to derive is kept in `cache_dir`, for a second time."""

    def __init__(self, root: Path, cache_dir: Path | None = None) -> None:
        self.root = root
        self.cache_dir = cache_dir or root / CACHE
        self.memo = memo_of(root.absolute())

    def path(self, table: str, partition: str | None = None) -> Path:
        return self.root / table / f"{partition or WHOLE}.parquet"

    def write(
        self,
        asset: str,
        partition: str | None,
        table: pa.Table,
        *,
        recipe: Recipe,
        inputs: Mapping[str, str],
        beside: Mapping[str, pa.Table] | None = None,
        measures: Mapping[str, float] | None = None,
    ) -> Provenance:
        """Writes an asset's output, and the tables beside it, with their provenance inside."""
        hashes: dict[str, str] = {}
        for name, extra in (beside or {}).items():
            record = Provenance(name, partition, recipe, inputs, content_hash(extra), extra.num_rows)
            self._put(record, extra)
            hashes[name] = record.content_hash
        content = content_hash(table)
        record = Provenance(asset, partition, recipe, inputs, content, table.num_rows, hashes, measures or {})
        # Before the output: a writer killed in between is tried again, and leaves no output that counts as failed.
        self.clear_failure(asset, partition)
        self._put(record, table)
        return record

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

    def damaged(self, asset: str, partition: str | None = None) -> list[str]:
        """The files of an output, relative to `root`, that do not hold what was written: a disk may change what it keeps."""
        record = self.provenance(asset, partition)
        hashes = {**record.beside, asset: record.content_hash} if record else {}
        paths = {name: self.path(name, partition) for name in sorted(hashes)}
        return [path.relative_to(self.root).as_posix() for name, path in paths.items() if _hash_now(path) != hashes[name]]

    def partitions(self, table: str) -> list[str]:
        """The partitions a table has files for, sorted (`all` for a table without partitions)."""
        return self._listed(table, ".parquet")

    def tables(self) -> list[str]:
        """The tables that have a folder."""
        folders = (path for path in self.root.iterdir() if path.is_dir()) if self.root.exists() else ()
        return sorted(path.name for path in folders if not path.name.startswith("."))

    def drop(self, asset: str, partition: str) -> None:
        """Forgets one partition of an asset, with the tables beside it, and its failure if it had one."""
        record = self.provenance(asset, partition)
        for beside in record.beside if record else ():
            self.path(beside, partition).unlink(missing_ok=True)
        self.path(asset, partition).unlink(missing_ok=True)
        self.clear_failure(asset, partition)

    def fork(self, root: Path) -> "Warehouse":
        """A warehouse at `root`, which isn't there yet, with all tables that are in this one, and the same cache.

        The files are the same until either writes its own in their place: neither sees what the other writes from then on.
        """
        other = Warehouse(root, self.cache_dir)
        for table in self.tables():
            for path in (self.root / table).iterdir():
                if not path.name.startswith("."):
                    with suppress(FileNotFoundError):  # replaced or dropped meanwhile: then it is derived anew
                        atomic.link(path, root / table / path.name)
        return other

    def adopt(self, other: "Warehouse", asset: str, partition: str | None) -> Provenance | None:
        """Takes over an output of another warehouse, with the tables beside it; None if it is replaced meanwhile."""
        record = other.provenance(asset, partition)
        try:
            for name in (*(record.beside if record else ()), asset):
                atomic.link(other.path(name, partition), self.path(name, partition))
        except FileNotFoundError:
            return None
        self.clear_failure(asset, partition)
        return self.committed(asset, partition)

    def record_failure(self, asset: str, partition: str | None, failure: Failure) -> None:
        atomic.write_text(json.dumps(asdict(failure), ensure_ascii=False), self._failure_path(asset, partition))

    def failure(self, asset: str, partition: str | None = None) -> Failure | None:
        """The last failure of an output, if nothing was written since. A damaged record is none: the step is tried again."""
        try:
            return Failure(**json.loads(self._failure_path(asset, partition).read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def clear_failure(self, asset: str, partition: str | None) -> None:
        self._failure_path(asset, partition).unlink(missing_ok=True)

    def failed_partitions(self, asset: str) -> list[str]:
        return self._listed(asset, FAILED)

    def sweep(self) -> None:
        """Removes what writers that are gone left half-written."""
        atomic.sweep(self.root, "*/.*.tmp")
        atomic.sweep(self.cache_dir, "*/.*.tmp")

    def _put(self, record: Provenance, table: pa.Table) -> None:
        stamped = table.replace_schema_metadata({PARQUET_KEY: record.to_json()})
        atomic.write_parquet(stamped, self.path(record.asset, record.partition))

    def _failure_path(self, asset: str, partition: str | None) -> Path:
        return self.root / asset / f"{partition or WHOLE}{FAILED}"

    def _listed(self, table: str, ending: str) -> list[str]:
        """The names of the table's files with that ending, without it."""
        try:
            with os.scandir(self.root / table) as entries:
                names = [entry.name for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name.removesuffix(ending) for name in names if name.endswith(ending) and not name.startswith("."))


def _hash_now(path: Path) -> str | None:
    """None where the file can't be read any more."""
    try:
        return content_hash(_rows(path))
    except (OSError, pa.ArrowException, ValueError):  # ValueError: text that is no UTF-8
        return None


def _rows(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Of one file. `pq.read_table` would scan a data set, in threads: where files are small and many, that takes longer."""
    with pq.ParquetFile(path) as file:
        return file.read(columns, use_threads=False)
