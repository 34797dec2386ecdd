"""How a step of the library becomes a Dagster asset: its place in the graph, and what people see of it in the UI."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from librarian_pipeline.checks import BLOCKING_CHECKS, Outcome
from librarian_pipeline.defs.instance import COMMAND_TAG, FULL_TAG, ONLY_IF_DUE, trigger_of
from librarian_pipeline.defs.metadata import (
    SEVERITIES,
    column_lineage,
    record_metadata,
    rows_as_markdown,
    shown,
    table_schema,
)
from librarian_pipeline.defs.partitions import episodes_partitions
from librarian_pipeline.defs.resources import ArchiveResource
from librarian_pipeline.derivation.derive import BODIES, Derived, derive
from librarian_pipeline.errors import DeferredError, LibrarianError
from librarian_pipeline.lineage.graph import NODES, AssetNode, Item
from librarian_pipeline.progress import Progress
from librarian_pipeline.storage.schemas import COLUMNS_OF

OWNER = "team:librarians"
DEFERRED = "deferred"
"""What marks a failed step, by its metadata, whose file is still being written."""
IS_NEW = "is new"
"""Whether a materialization was derived by its run, or by another process meanwhile."""


def asset_of(name: str, *kinds: str, checks: Mapping[str, str] | None = None) -> dg.AssetsDefinition:
    """The asset of that name, described by the docstring of what derives it.

    `kinds` are shown in the UI, besides those of where it is stored; `checks` are those whose outcomes it gives, with what
    each looks at.
    """
    node = NODES[name]

    @dg.asset(
        name=name,
        description=inspect.getdoc(BODIES[name]),
        deps=list(node.upstream),
        group_name=node.group,
        kinds={"duckdb", "parquet", *kinds},
        owners=[OWNER],
        partitions_def=episodes_partitions if node.per_episode else None,
        check_specs=_check_specs(node, checks or {}),
        metadata={
            "dagster/column_schema": table_schema(COLUMNS_OF[name][0]),
            "dagster/column_lineage": column_lineage(name),
            "dagster/table_name": f"librarian.main.{name}",
        },
    )
    def materialize(
        context: dg.AssetExecutionContext, archive: ArchiveResource, progress: dg.ResourceParam[Progress]
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with a parameter, Dagster takes it for a tuple
        item = Item(name, context.partition_key if context.has_partition_key else None)
        try:
            derived = derive(
                archive.open(),
                item,
                progress,
                only_if_due=_is_tagged(context, ONLY_IF_DUE),
                reuse=not _is_tagged(context, FULL_TAG),
                mirror=not _is_tagged(context, COMMAND_TAG),
                trigger=trigger_of(context.run.tags),
            )
        except LibrarianError as error:
            marks = {DEFERRED: True} if isinstance(error, DeferredError) else {}
            raise dg.Failure(str(error), metadata=marks, allow_retries=False) from error
        return _result(context, item, derived)

    return materialize


def _check_specs(node: AssetNode, checks: Mapping[str, str]) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(name, asset=node.name, description=text, blocking=name in BLOCKING_CHECKS)
        for name, text in checks.items()
    ]


def _is_tagged(context: dg.AssetExecutionContext, tag: Mapping[str, str]) -> bool:
    return tag.items() <= context.run.tags.items()


def _result(context: dg.AssetExecutionContext, item: Item, derived: Derived) -> "dg.MaterializeResult[Any]":
    return dg.MaterializeResult(
        data_version=dg.DataVersion(derived.record.version),
        metadata={
            **record_metadata(derived.record),
            "dagster/column_schema": table_schema(derived.columns),
            IS_NEW: derived.is_new,
            **{name: shown(value) for name, value in derived.facts.items()},
        },
        check_results=_check_results(context, item, derived.outcomes),
    )


def _check_results(context: dg.AssetExecutionContext, item: Item, outcomes: Sequence[Outcome]) -> list[dg.AssetCheckResult]:
    """One for each check of the asset that runs: Dagster wants to hear of those, too, that have nothing to look at."""
    found = {outcome.check: outcome for outcome in outcomes}
    names = sorted(key.name for key in context.selected_asset_check_keys)
    return [_check_result(found.get(name) or Outcome(name, True, "nothing to check", 0), item) for name in names]


def _check_result(outcome: Outcome, item: Item) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=outcome.check,
        passed=outcome.passed,
        severity=SEVERITIES[outcome.severity],
        description=f"{item}: {outcome.message}",
        metadata={"value": outcome.value, **_details(outcome)},
    )


def _details(outcome: Outcome) -> dict[str, Any]:
    return {"details": rows_as_markdown(outcome.details, list(outcome.details[0]))} if outcome.details else {}
