"""One step: the item that is derived, its recipe and inputs, and what its body gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from librarian_pipeline.archive.layout import EpisodeFiles
from librarian_pipeline.checks import Outcome, measures_of
from librarian_pipeline.errors import LibrarianError
from librarian_pipeline.lineage.graph import NODES, Item, upstream_items
from librarian_pipeline.lineage.outdated import Verdict, World, verdict_of
from librarian_pipeline.progress import Progress
from librarian_pipeline.settings import Settings
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.workspace import UNDECLARED, Workspace

STILL_WRITTEN = "deferred"
"""The input `file` of an output that stands for a file that is still being written: it is out of date at once."""


@dataclass(frozen=True)
class Sample:
    """Some rows to look at, with the columns that are worth it."""

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[str]


@dataclass(frozen=True)
class Markdown:
    """Text that is shown with its markup."""

    text: str


@dataclass(frozen=True)
class Output:
    """What a step's body gives: the asset's table, the tables beside it, and facts about the work for people to see.

    `facts` are plain values, or a `Sample` or `Markdown`. What is `deferred` stands for a file that is still being written.
    """

    table: pa.Table
    beside: Mapping[str, pa.Table] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    deferred: bool = False


class Step:
    """What the body of a step works with. Inputs are noted before anything is read: a file that changes meanwhile is then
    seen as a change by the next run.

    `reuse` allows dear results of earlier steps to be taken from the cache. Raises `LibrarianError` where the episode's
    files are gone, or where nothing it is derived from was ever derived.
    """

    def __init__(self, workspace: Workspace, item: Item, progress: Progress, *, reuse: bool = True) -> None:
        self.workspace = workspace
        self.warehouse = workspace.warehouse
        self.item = item
        self.reuse = reuse
        self._progress = progress
        self.discovery = workspace.archive.discover(only=item.partition)
        if item.partition is not None and item.partition not in self.discovery.episodes:
            raise LibrarianError(f"the archive has no files of an episode {item.partition!r} any more")
        self._world = workspace.observe_item(item, self.discovery)
        self.episodes = self._world.episodes
        self.recipe = self._world.recipes[item]
        self.inputs = self._world.inputs(item)
        self._require_upstream(self._world)
        self._refuse_blocked(self._world)

    def _require_upstream(self, world: World) -> None:
        """A step by hand must not pass over what was never derived. What failed was tried: the rest goes on without it."""
        for name in NODES[self.item.asset].upstream:
            items = [item for item in upstream_items(self.item, self.episodes) if item.asset == name]
            if items and not any(item in world.stored or self._has_failed(item) for item in items):
                raise LibrarianError(f"{items[0]} was never derived", "derive it first")

    def _refuse_blocked(self, world: World) -> None:
        """Of an episode's items. The archive's assets go on with what there is of the others."""
        for other in upstream_items(self.item, self.episodes) if self.item.partition is not None else ():
            if other in world.blocks:
                raise LibrarianError(f"nothing is derived from {other}: {world.blocks[other]}", "mend its source first")

    def _has_failed(self, item: Item) -> bool:
        return self.warehouse.failure(item.asset, item.partition) is not None

    @property
    def verdict(self) -> Verdict:
        """Whether the item is out of date, whatever may be to do upstream of it."""
        return verdict_of(self.item, self._world)

    @property
    def stored(self) -> Provenance | None:
        """The record of the item's last output."""
        return self._world.stored.get(self.item)

    @property
    def settings(self) -> Settings:
        return self.workspace.settings

    @property
    def partition(self) -> str:
        """The episode of a step that has one."""
        assert self.item.partition is not None
        return self.item.partition

    @property
    def files(self) -> EpisodeFiles:
        return self.discovery.episodes[self.partition]

    @property
    def declared_language(self) -> str | None:
        """The language that the episode's notes declare, as noted among the inputs."""
        language = self.inputs.get("language", UNDECLARED)
        return None if language == UNDECLARED else language

    def read(self, asset: str, schema: pa.Schema) -> pa.Table:
        """The rows of another asset: of this step's episode, or of all episodes for a step over the archive."""
        episodes = self.episodes if self.item.partition is None else [self.item.partition]
        return self.warehouse.read_all(asset, episodes, schema)

    def report(self, done: float, total: float, unit: str) -> None:
        self._progress.report(self.item.asset, self.item.partition or "", done, total, unit)

    def inputs_changed(self) -> bool:
        """Whether anything that the step reads is another than when it was opened."""
        now = self.workspace.observe_item(self.item, self.workspace.archive.discover(only=self.item.partition))
        return now.inputs(self.item) != self.inputs

    def store(self, output: Output, outcomes: Sequence[Outcome]) -> Provenance:
        """Writes the output with its provenance, what blocking checks measured of it included, and returns the record."""
        inputs = {**self.inputs, "file": STILL_WRITTEN} if output.deferred else self.inputs
        return self.warehouse.write(
            self.item.asset,
            self.item.partition,
            output.table,
            recipe=self.recipe,
            inputs=inputs,
            beside=output.beside,
            measures=measures_of(outcomes),
        )
