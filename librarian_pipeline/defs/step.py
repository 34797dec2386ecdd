"""One step of a run: the item that is derived, its recipe and inputs, and the way its output is stored."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg
import pyarrow as pa

from librarian_pipeline.archive.layout import EpisodeFiles
from librarian_pipeline.checks import BLOCKING_CHECKS, Outcome, Severity
from librarian_pipeline.defs.resources import ArchiveResource
from librarian_pipeline.errors import DeferredError, LibrarianError, SourceError
from librarian_pipeline.lineage.graph import NODES, Item, upstream_items
from librarian_pipeline.lineage.outdated import World
from librarian_pipeline.progress import Progress
from librarian_pipeline.settings import Settings
from librarian_pipeline.storage import duckdb_mirror
from librarian_pipeline.storage.provenance import Provenance, fingerprint
from librarian_pipeline.storage.warehouse import Failure
from librarian_pipeline.workspace import UNDECLARED

DEFERRED = "deferred"
"""What marks a step, by its metadata, whose file is still being written."""


class Step:
    """Opened at the start of an asset's body. Inputs are noted before anything is read: a file that changes meanwhile is
    then seen as a change by the next run."""

    def __init__(self, context: dg.AssetExecutionContext, archive: ArchiveResource, progress: Progress) -> None:
        self.workspace = archive.open()
        self.warehouse = self.workspace.warehouse
        self._context = context
        self._progress = progress
        self.item = Item(context.asset_key.to_user_string(), context.partition_key if context.has_partition_key else None)
        self.discovery = self.workspace.archive.discover()
        if self.item.partition is not None and self.item.partition not in self.discovery.episodes:
            raise dg.Failure(f"the archive has no files of an episode {self.item.partition!r} any more", allow_retries=False)
        world = self.workspace.observe_item(self.item, self.discovery)
        self.episodes = world.episodes
        self._require_upstream(world)
        # Of an earlier attempt: whatever becomes of this one, that is not what happened to it.
        self.warehouse.clear_failure(self.item.asset, self.item.partition)
        self._recipe = world.recipes[self.item]
        self._inputs = world.inputs(self.item)

    def _require_upstream(self, world: World) -> None:
        """A step by hand must not pass over what was never derived. What failed was tried: the rest goes on without it."""
        for name in NODES[self.item.asset].upstream:
            items = [item for item in upstream_items(self.item, self.episodes) if item.asset == name]
            if items and not any(item in world.stored or self._has_failed(item) for item in items):
                raise dg.Failure(f"{items[0]} was never derived: derive it first", allow_retries=False)

    def _has_failed(self, item: Item) -> bool:
        return self.warehouse.failure(item.asset, item.partition) is not None

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
        language = self._inputs.get("language", UNDECLARED)
        return None if language == UNDECLARED else language

    def read(self, asset: str, schema: pa.Schema) -> pa.Table:
        """The rows of another asset: of this step's episode, or of all episodes for a step over the archive."""
        episodes = self.episodes if self.item.partition is None else [self.item.partition]
        return self.warehouse.read_all(asset, episodes, schema)

    def report(self, done: float, total: float, unit: str) -> None:
        self._progress.report(self.item.asset, self.item.partition or "", done, total, unit)

    @contextmanager
    def recording_failures(self) -> Iterator[None]:
        """Fails the step where a file can't be read, with a record, so that it isn't tried again until it changes."""
        try:
            yield
        except SourceError as error:
            failure = Failure(fingerprint(self._recipe), self._inputs, error.message, error.fix)
            self.warehouse.record_failure(self.item.asset, self.item.partition, failure)
            raise dg.Failure(failure.line, allow_retries=False) from error
        except DeferredError as error:
            raise dg.Failure(str(error), metadata={DEFERRED: True}, allow_retries=False) from error
        except LibrarianError as error:
            raise dg.Failure(str(error), allow_retries=False) from error

    def store(
        self,
        table: pa.Table,
        beside: Mapping[str, pa.Table] | None = None,
        metadata: Mapping[str, Any] | None = None,
        deferred: bool = False,
        outcomes: Sequence[Outcome] = (),
    ) -> "dg.MaterializeResult[Any]":
        """Writes the output to Parquet and DuckDB, and returns it with its data version and metadata.

        What is `deferred` stands for a file that is still being written, and is out of date at once.
        """
        inputs = {**self._inputs, "file": DEFERRED} if deferred else self._inputs
        record = self.warehouse.write(
            self.item.asset,
            self.item.partition,
            table,
            recipe=self._recipe,
            inputs=inputs,
            beside=beside,
            measures={outcome.check: outcome.value for outcome in outcomes if outcome.check in BLOCKING_CHECKS},
        )
        self._mirror([self.item.asset, *(beside or {})])
        return dg.MaterializeResult(
            data_version=dg.DataVersion(record.version),
            metadata={**_facts(record), "dagster/column_schema": table_schema(table.schema), **(metadata or {})},
            check_results=self._check_results(outcomes),
        )

    def _check_results(self, outcomes: Sequence[Outcome]) -> list[dg.AssetCheckResult]:
        """One for each check of the asset that runs: Dagster wants to hear of those, too, that have nothing to look at."""
        found = {outcome.check: outcome for outcome in outcomes}
        names = sorted(key.name for key in self._context.selected_asset_check_keys)
        return [_check_result(found.get(name) or Outcome(name, True, "nothing to check", 0), self.item) for name in names]

    def _mirror(self, tables: list[str]) -> None:
        try:
            duckdb_mirror.refresh_partitions(self.warehouse, tables, self.item.partition)
        except duckdb_mirror.MirrorBusyError as error:
            self._context.log.warning("%s: its tables are brought up to date by the next run", error)


def _check_result(outcome: Outcome, item: Item) -> dg.AssetCheckResult:
    severity = {Severity.WARN: dg.AssetCheckSeverity.WARN, Severity.ERROR: dg.AssetCheckSeverity.ERROR}[outcome.severity]
    return dg.AssetCheckResult(
        check_name=outcome.check,
        passed=outcome.passed,
        severity=severity,
        description=f"{item}: {outcome.message}",
        metadata={"value": outcome.value},
    )


def _facts(record: Provenance) -> dict[str, Any]:
    return {
        "dagster/row_count": record.rows,
        "recipe": dg.MetadataValue.json(dict(record.recipe)),
        "recipe_fingerprint": record.recipe_fingerprint,
        "inputs": dg.MetadataValue.json(dict(record.inputs)),
    }


def table_schema(schema: pa.Schema) -> dg.TableSchema:
    return dg.TableSchema([dg.TableColumn(field.name, str(field.type)) for field in schema])
