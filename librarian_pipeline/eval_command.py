"""What `librarian eval` shows: the score table of the current index, its gates, and how near its citations are."""

from pathlib import Path

from librarian_pipeline.checks import Severity
from librarian_pipeline.checks.gates import is_failure
from librarian_pipeline.console import print_gates, print_grid, print_json, print_lines, print_score_table
from librarian_pipeline.evaluation.gold_health import gold_health
from librarian_pipeline.evaluation.hygiene import LABELS
from librarian_pipeline.evaluation.measure import export_stored, stored_gates, stored_score_table
from librarian_pipeline.evaluation.metrics import Dimension
from librarian_pipeline.evaluation.score_table import detectable_lines, jump_in_grid, sliced_grid
from librarian_pipeline.lineage.outdated import verdicts
from librarian_pipeline.storage.schemas import DETECTABLE
from librarian_pipeline.workspace import Workspace


def print_measured(
    workspace: Workspace, by: Dimension | None, split: str | None, trec: Path | None, *, as_json: bool
) -> int:
    """The figures, of each value of `by` as well, of the queries of `split` alone where one is named; written to `trec` in
    TREC's formats. Returns the exit code: 1 if a gate or a check of the gold set failed.
    """
    table = stored_score_table(workspace.warehouse, split)
    scores = workspace.warehouse.read("eval_scores")
    detectable = workspace.warehouse.read_all("detectable", ["all"], DETECTABLE)
    gates = stored_gates(workspace.warehouse)
    if as_json:
        caption = {"passages": table.n_passages, "episodes": table.n_episodes, "queries": table.n_queries}
        figures = {
            name: [row for row in rows.to_pylist() if split is None or split in row["slice"].split("/")]
            for name, rows in (("scores", scores), ("detectable", detectable))
        }
        print_json({**caption, "dense": table.dense_backend, **figures, "gates": gates})
    else:
        print_score_table(table)
        if by is not None:
            print_grid(sliced_grid(scores, by, split), numbers_from=2)
        within = "jump-in: share of queries whose first citation is that near to the judged start, and the median distance"
        print_grid(jump_in_grid(scores, by, split), numbers_from=2 if by else 1, caption=within)
        print_lines(["", *told] if (told := detectable_lines(detectable, scores, split)) else [])
        print_gates(gates)
    if trec is not None:
        exported = export_stored(workspace.warehouse, trec, split)
        print_lines([f"written: {path}" for path in exported.files], to_stderr=True)
        print_lines(
            [f"left out: query {query_id!r}: no passage meets any of its spans" for query_id in exported.left_out],
            to_stderr=True,
        )
    found = [check for check in gold_health(workspace.warehouse, workspace.settings.gold) if not check.passed]
    # Of labels, a gate tells.
    print_lines([f"gold set: {check.line}" for check in found if check.name != LABELS], to_stderr=True)
    if not all(verdict.settled for verdict in verdicts(workspace.observe()).values()):
        print_lines(["note: the archive has changed since; `librarian run` measures it anew"], to_stderr=True)
    failed = any(check.severity is Severity.ERROR for check in found) or any(is_failure(gate) for gate in gates)
    return 1 if failed else 0
