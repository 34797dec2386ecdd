"""How well each mode finds things: `gold_set`, `eval_scores`."""

from librarian_pipeline.derivation.step import Markdown, Output, Sample, Step
from librarian_pipeline.evaluation.gold import gold_table, read_gold_set
from librarian_pipeline.evaluation.measure import measure


def gold_set(step: Step) -> Output:
    """Hand-labelled queries and the spans of the source that answer them."""
    table = gold_table(read_gold_set(step.workspace.archive.gold_path))
    sample = Sample(table.slice(0, 5).to_pylist(), ["query_id", "query", "kind", "episode_id"])
    return Output(table, facts={"n_queries": len(table.column("query_id").unique()), "sample": sample})


def eval_scores(step: Step) -> Output:
    """How well every retrieval mode finds and cites what the gold set asks for, with confidence intervals."""
    measured = measure(step.warehouse, step.settings, lambda done, total: step.report(done, total, "queries"))
    figures = {f"{mode} {metric}": value for (mode, metric), value in measured.table.values.items()}
    return Output(
        measured.scores,
        beside=measured.beside,
        facts={"score table": Markdown(measured.table.to_markdown()), **figures},
    )
