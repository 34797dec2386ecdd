"""What `librarian eval --azure` does: brings the index up to date, measures, and prints one table for both stacks."""

from datetime import UTC, datetime
from typing import Any

from filelock import FileLock, Timeout

from librarian_pipeline.azure.evaluating import AzureMeasured, baseline_path
from librarian_pipeline.azure.stack import AzureStack
from librarian_pipeline.azure.synchronising import Synchronised
from librarian_pipeline.console import print_gates, print_grid, print_lines, print_score_table, showing_progress
from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.baseline import accept
from librarian_pipeline.evaluation.metrics import Dimension
from librarian_pipeline.evaluation.score_table import ScoreTable, sliced_grid
from librarian_pipeline.workspace import Workspace

EMBEDDED, SEARCHED = "azure_index", "azure_eval_scores"


def evaluate_on_azure(workspace: Workspace, *, accepting: bool = False) -> tuple[AzureMeasured, Synchronised]:
    """Measures; with `accepting`, makes this what later measurements on Azure are held against. The estimate goes to stderr.

    Raises `UsageError` if another one is at work on this archive.
    """
    folder = workspace.warehouse.root
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".azure.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise UsageError("another update on Azure is at work on this archive", "wait until it has ended") from error
    try:
        stack = AzureStack(workspace)
        with showing_progress({}) as progress:
            synchronised = stack.update(
                lambda estimate: print_lines([f"Azure: {estimate.line}"], to_stderr=True),
                lambda done, total: progress.report(EMBEDDED, "", done, total, "documents"),
            )
            measured, _ = stack.evaluate(lambda done, total: progress.report(SEARCHED, "", done, total, "queries"))
        print_lines([told(synchronised)], to_stderr=True)
        if accepting:
            path = baseline_path(workspace)
            accept(path, measured.measurement, f"{datetime.now(UTC):%Y-%m-%d}")
            print_lines([f"written: {path}: review it like any other change"], to_stderr=True)
    finally:
        lock.release()
    return measured, synchronised


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
