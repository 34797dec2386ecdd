"""What an edition keeps of its snapshot's files, so that nothing has to be read from disk while it is served."""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from librarian_pipeline.storage.snapshot import Snapshot
from librarian_pipeline.storage.tables import rows_in

ENDING = ".parquet"


class KeptTables:
    """The files of one table by their partitions, compressed as they were published: an hour of a transcript takes 0.1 MB.

    They outlive their folder, which a few publications later is removed, and whatever becomes of its bits.
    """

    def __init__(self, table: str, files: Mapping[str, bytes]) -> None:
        self._table = table
        self._files = files

    @classmethod
    def of(cls, snapshot: Snapshot, table: str) -> "KeptTables":
        """Raises `SnapshotError` if a file is not as published to the last bit."""
        names = (name for name in snapshot.manifest.files if name.startswith(f"{table}/"))
        return cls(table, {name[len(table) + 1 : -len(ENDING)]: snapshot.read_verified(name) for name in names})

    def read_all(self, table: str, partitions: Iterable[str], schema: pa.Schema) -> pa.Table:
        """As `TableReader.read_all`, of the table that is kept."""
        assert table == self._table
        tables = [rows_in(self._files[partition], schema.names) for partition in partitions if partition in self._files]
        return pa.concat_tables([found.replace_schema_metadata() for found in tables]) if tables else schema.empty_table()
