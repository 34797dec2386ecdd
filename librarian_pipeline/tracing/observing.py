"""The archive as a trace sees it: what is stored, and what is out of date, observed at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from librarian_pipeline.archive.layout import EpisodeFiles
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.outdated import State, Verdict, World, verdicts
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.storage.warehouse import WHOLE, Warehouse
from librarian_pipeline.workspace import Workspace


@dataclass(frozen=True)
class Observed:
    """`files` holds the episodes whose files are there; the warehouse may know of more."""

    warehouse: Warehouse
    files: Mapping[str, EpisodeFiles]
    world: World
    verdicts: Mapping[Item, Verdict]

    @classmethod
    def now(cls, workspace: Workspace) -> "Observed":
        discovery = workspace.archive.discover()
        world = workspace.observe(discovery)
        return cls(workspace.warehouse, discovery.episodes, world, verdicts(world))

    def record(self, item: Item) -> Provenance | None:
        """The record of an item's stored output, whether its episode still has files or not."""
        return self.world.stored.get(item) or self.warehouse.committed(item.asset, item.partition)

    def verdict(self, item: Item) -> Verdict:
        gone = Verdict(State.STALE, (f"the files of {item.partition} are gone",))
        return self.verdicts.get(item, gone)

    @property
    def is_settled(self) -> bool:
        """Whether nothing in the archive is to be derived."""
        return all(verdict.settled for verdict in self.verdicts.values()) and not self._departed

    @property
    def _departed(self) -> set[str]:
        return set(self.warehouse.partitions("chunks")) - self.files.keys()

    def rows(self, table: str, partition: str | None, schema: pa.Schema, **equal: str) -> list[dict[str, Any]]:
        """The rows of one file whose columns `equal` these values; of each what `schema` names. No rows if never written."""
        found = self.warehouse.read_all(table, [partition or WHOLE], schema)
        for column, value in equal.items():
            found = found.filter(pc.equal(found.column(column), value))
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows


def holds(record: Provenance | None, item: Item, used: Provenance | None) -> bool:
    """Whether the output of `record` was derived from this very output of `item`."""
    return record is not None and used is not None and record.inputs.get(str(item)) == used.version
