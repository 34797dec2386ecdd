"""The assets on Azure: a group of their own, there only where an account is configured and the extra is installed.

No schedule and no sensor asks for them: they cost money, so that a person does.
"""

from pathlib import Path

import dagster as dg

from librarian_pipeline.azure.account import is_configured, missing_libraries
from librarian_pipeline.azure.gates import AZURE_GATES
from librarian_pipeline.checks import Severity
from librarian_pipeline.defs.metadata import SEVERITIES, record_metadata, rows_as_markdown, table_schema
from librarian_pipeline.defs.resources import ArchiveResource
from librarian_pipeline.errors import LibrarianError
from librarian_pipeline.progress import Progress
from librarian_pipeline.storage.schemas import EVAL_SCORES

GROUP = "azure"
OWNER = "team:librarians"


def azure_assets(home: Path) -> list[dg.AssetsDefinition]:
    """Both of them, or none. Nothing of the extra is loaded before one of them is materialized."""
    return [azure_index, azure_eval_scores] if is_configured(home) and not missing_libraries() else []


@dg.asset(deps=["chunks", "bm25_raw_index"], group_name=GROUP, kinds={"azure"}, owners=[OWNER])
def azure_index(
    context: dg.AssetExecutionContext, archive: ArchiveResource, progress: dg.ResourceParam[Progress]
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with a parameter, Dagster takes it for a tuple
    """The passages in Azure AI Search: only what changed is embedded and uploaded, within the budget of the settings."""
    try:
        from librarian_pipeline.azure.stack import AzureStack

        found = AzureStack(archive.open()).update(
            lambda estimate: context.log.info(estimate.line),
            lambda done, total: progress.report("azure_index", "", done, total, "documents"),
        )
    except LibrarianError as error:
        raise dg.Failure(str(error), allow_retries=False) from None
    counts = {name: getattr(found, name) for name in ("documents", "uploaded", "deleted", "unchanged", "tokens")}
    return dg.MaterializeResult(metadata={**counts, "estimate": found.estimate.line})


@dg.asset(
    deps=["azure_index", "eval_scores", "gold_set"],
    group_name=GROUP,
    kinds={"azure", "duckdb", "parquet"},
    owners=[OWNER],
    check_specs=[
        dg.AssetCheckSpec(name, asset="azure_eval_scores", description=text, blocking=False)
        for name, text in AZURE_GATES.items()
    ],
    metadata={"dagster/column_schema": table_schema(EVAL_SCORES), "dagster/table_name": "librarian.main.azure_eval_scores"},
)
def azure_eval_scores(
    context: dg.AssetExecutionContext, archive: ArchiveResource, progress: dg.ResourceParam[Progress]
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """R@1, R@3, R@5 and MRR of every local mode and the three on Azure; the gates look on, and block nothing."""
    try:
        from librarian_pipeline.azure.stack import AzureStack

        measured, record = AzureStack(archive.open()).evaluate(
            lambda estimate: context.log.info(estimate.line),
            lambda done, total: progress.report("azure_eval_scores", "", done, total, "queries"),
        )
    except LibrarianError as error:
        raise dg.Failure(str(error), allow_retries=False) from None
    selected = {key.name for key in context.selected_asset_check_keys}
    gates = [gate for gate in measured.gates.to_pylist() if gate["gate"] in selected]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(record.version),
        metadata={
            **record_metadata(record),
            "score table": dg.MetadataValue.md(measured.table.to_markdown()),
            "gates": rows_as_markdown(measured.gates.to_pylist(), ["gate", "passed", "severity", "message"]),
        },
        check_results=[
            dg.AssetCheckResult(
                check_name=gate["gate"],
                passed=gate["passed"],
                severity=SEVERITIES[Severity(gate["severity"])],
                description=gate["message"],
            )
            for gate in gates
        ],
    )
