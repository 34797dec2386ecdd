"""How well each mode finds things: `gold_set`, `eval_scores`."""

import dagster as dg

from librarian_pipeline.defs.declaration import Result, derived
from librarian_pipeline.defs.metadata import rows_as_markdown
from librarian_pipeline.defs.resources import ArchiveResource
from librarian_pipeline.defs.step import Step
from librarian_pipeline.evaluation.gold import gold_table, read_gold_set
from librarian_pipeline.evaluation.measure import lost_labels, measure
from librarian_pipeline.storage.schemas import EVAL_SCORES, GOLD_SET


@derived(GOLD_SET, "json")
def gold_set(step: Step) -> Result:
    """Hand-labelled queries and the spans of the source that answer them."""
    table = gold_table(read_gold_set(step.workspace.archive.gold_path))
    sample = rows_as_markdown(table.slice(0, 5).to_pylist(), ["query_id", "query", "kind", "episode_id"])
    return step.store(table, metadata={"n_queries": len(table.column("query_id").unique()), "sample": sample})


@derived(EVAL_SCORES)
def eval_scores(step: Step) -> Result:
    """R@1, R@3, R@5 and MRR of every retrieval mode on the gold set, with confidence intervals."""
    measured = measure(step.warehouse, step.settings, lambda done, total: step.report(done, total, "queries"))
    figures = {f"{mode} {metric}": value for (mode, metric), value in measured.table.values.items()}
    return step.store(
        measured.scores,
        beside={"rankings": measured.rankings, "eval_corpus": measured.corpus},
        metadata={"score table": dg.MetadataValue.md(measured.table.to_markdown()), **figures},
    )


@dg.asset_check(asset=eval_scores, description="Every judged span of the gold set is hit by at least one passage.")
def gold_labels_resolve(archive: ArchiveResource) -> dg.AssetCheckResult:
    """Every judged span of the gold set is hit by at least one passage."""
    lost = lost_labels(archive.open().warehouse)
    return dg.AssetCheckResult(passed=not lost, metadata={"lost": dg.MetadataValue.json(lost)})
