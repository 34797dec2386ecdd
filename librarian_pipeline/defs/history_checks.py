"""Alerts over the history of measurements, as checks of `eval_scores`."""

import dagster as dg

from librarian_pipeline.defs.metadata import rows_as_markdown
from librarian_pipeline.defs.resources import ArchiveResource
from librarian_pipeline.evaluation.history import read_history, unexplained_changes


@dg.asset_check(
    asset="eval_scores", description="What was measured before, of the same inputs by the same recipe, is measured again."
)
def figures_reproduce(archive: ArchiveResource) -> dg.AssetCheckResult:
    """Each figure of the last measurement is the one of the time before, if all it is made from is equal."""
    changes = unexplained_changes(read_history(archive.open().warehouse))
    rows = [{"figure": line} for line in changes]
    return dg.AssetCheckResult(
        passed=not changes,
        severity=dg.AssetCheckSeverity.ERROR,
        description=f"{len(changes)} figures are others than the last time that the same was measured",
        metadata={"changes": len(changes), **({"figures": rows_as_markdown(rows, ["figure"])} if rows else {})},
    )
