"""What `librarian eval --azure` does: brings the index up to date, measures, and prints one table for both stacks."""

from datetime import UTC, datetime
from typing import Any

from librarian_pipeline.azure.evaluating import EVAL, GATE_TABLE, JUMPS, RANKINGS, AzureMeasured, baseline_path
from librarian_pipeline.azure.stack import AzureStack
from librarian_pipeline.azure.synchronising import Synchronised
from librarian_pipeline.console import print_gates, print_grid, print_lines, print_score_table, showing_progress
from librarian_pipeline.evaluation.baseline import accept
from librarian_pipeline.evaluation.metrics import Dimension
from librarian_pipeline.evaluation.score_table import ScoreTable, sliced_grid
from librarian_pipeline.storage import duckdb_mirror
from librarian_pipeline.workspace import Workspace

EMBEDDED, SEARCHED = "azure_index", "azure_eval_scores"


def evaluate_on_azure(workspace: Workspace, *, accepting: bool = False) -> tuple[AzureMeasured, Synchronised]:
    """Measures; with `accepting`, makes this what later measurements on Azure are held against. Estimates go to stderr."""
    stack = AzureStack(workspace)
    with showing_progress({}) as progress:
        synchronised = stack.update(
            lambda found: print_lines([f"Azure, passages: {found.line}"], to_stderr=True),
            lambda done, total: progress.report(EMBEDDED, "", done, total, "documents"),
        )
        measured, _ = stack.evaluate(
            lambda found: print_lines([f"Azure, queries: {found.line}"], to_stderr=True),
            lambda done, total: progress.report(SEARCHED, "", done, total, "queries"),
        )
    print_lines([told(synchronised)], to_stderr=True)
    _refresh_mirror(workspace)
    if accepting:
        path = baseline_path(workspace)
        accept(path, measured.measurement, f"{datetime.now(UTC):%Y-%m-%d}")
        print_lines([f"written: {path}: review it like any other change"], to_stderr=True)
    return measured, synchronised


def _refresh_mirror(workspace: Workspace) -> None:
    try:
        duckdb_mirror.refresh_partitions(workspace.warehouse, [EVAL, RANKINGS, JUMPS, GATE_TABLE], None)
    except duckdb_mirror.MirrorBusyError as error:
        print_lines([f"warning: {error}: its tables are brought up to date by the next run"], to_stderr=True)


def told(found: Synchronised) -> str:
    """What an update came to, in a line."""
    return (
        f"Azure: {found.uploaded} documents uploaded, {found.deleted} deleted, {found.unchanged} unchanged; "
        f"{found.tokens} tokens embedded, by the service's count"
    )


def print_measured(measured: AzureMeasured, by: Dimension | None, split: str | None) -> None:
    """The table of both stacks, and the gates, of which none decides on publication."""
    print_score_table(ScoreTable.of(measured.scores, measured.corpus, split))
    if by is not None:
        print_grid(sliced_grid(measured.scores, by, split), numbers_from=2)
    print_gates(measured.gates.to_pylist())


def as_json(measured: AzureMeasured, found: Synchronised) -> dict[str, Any]:
    """For `--json`."""
    index = {name: getattr(found, name) for name in ("documents", "uploaded", "deleted", "unchanged", "tokens")}
    return {"index": index, "scores": measured.scores.to_pylist(), "gates": measured.gates.to_pylist()}
