"""How a function over a `Step` becomes a Dagster asset: its place in the graph, and what people see of it in the UI."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg
import pyarrow as pa

from librarian_pipeline.checks import BLOCKING_CHECKS
from librarian_pipeline.defs.partitions import episodes_partitions
from librarian_pipeline.defs.resources import ArchiveResource
from librarian_pipeline.defs.step import Step, table_schema
from librarian_pipeline.lineage.graph import NODES
from librarian_pipeline.progress import Progress

OWNER = "team:librarians"

Result = dg.MaterializeResult[Any]


def derived(
    schema: pa.Schema, *kinds: str, checks: Mapping[str, str] | None = None
) -> Callable[[Callable[[Step], Result]], dg.AssetsDefinition]:
    """Makes the asset that has the function's name, and the function's docstring as its description.

    `schema` are its columns; `kinds` are shown in the UI, besides those of where it is stored; `checks` are those whose
    outcomes it gives, with what each looks at.
    """

    def declare(body: Callable[[Step], Result]) -> dg.AssetsDefinition:
        node = NODES[body.__name__]

        @dg.asset(
            name=node.name,
            description=inspect.getdoc(body),
            deps=list(node.upstream),
            group_name=node.group,
            kinds={"duckdb", "parquet", *kinds},
            owners=[OWNER],
            partitions_def=episodes_partitions if node.per_episode else None,
            check_specs=[
                dg.AssetCheckSpec(name, asset=node.name, description=text, blocking=name in BLOCKING_CHECKS)
                for name, text in (checks or {}).items()
            ],
            metadata={"dagster/column_schema": table_schema(schema), "dagster/table_name": f"librarian.main.{node.name}"},
        )
        def materialize(
            context: dg.AssetExecutionContext, archive: ArchiveResource, progress: dg.ResourceParam[Progress]
        ) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with a parameter, Dagster takes it for a tuple
            step = Step(context, archive, progress)
            with step.recording_failures():
                return body(step)

        return materialize

    return declare
