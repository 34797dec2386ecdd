"""The warehouse: one Parquet file for each partition of each table, written whole or not at all.

Parquet is the truth. A table's folder is `warehouse/<table>/`, a file in it `<partition>.parquet`, or `all.parquet` for a
table without partitions. An asset's own table is written last and lists the tables beside it by content hash: it is the
commit point of the step. A source that can't be read leaves a record of the failure, and the earlier output stays.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from librarian_pipeline.storage import atomic
from librarian_pipeline.storage.content import content_hash
from librarian_pipeline.storage.provenance import PARQUET_KEY, Provenance, Recipe
from librarian_pipeline.storage.tables import WHOLE, TableReader

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


class Warehouse(TableReader):
    """Reads and writes the tables below `root`. What is dear to derive is kept in `cache_dir`, for a second time."""

    def __init__(self, root: Path, cache_dir: Path | None = None) -> None:
        super().__init__(root)
        self.cache_dir = cache_dir or root / CACHE

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

    def damaged(self, asset: str, partition: str | None = None) -> list[str]:
        """The files of an output, relative to `root`, that do not hold what was written: a disk may change what it keeps."""
        record = self.provenance(asset, partition)
        hashes = {**record.beside, asset: record.content_hash} if record else {}
        found = []
        for name in sorted(hashes):
            if self._hash_now(name, partition) != hashes[name]:
                found.append(self.path(name, partition).relative_to(self.root).as_posix())
        return found

    def _hash_now(self, table: str, partition: str | None) -> str | None:
        """None where the file can't be read any more."""
        try:
            return content_hash(self.read(table, partition))
        except (OSError, pa.ArrowException, ValueError):  # ValueError: text that is no UTF-8
            return None

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
