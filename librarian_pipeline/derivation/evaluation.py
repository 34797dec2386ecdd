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
    """R@1, R@3, R@5 and MRR of every retrieval mode on the gold set, with confidence intervals."""
    measured = measure(step.warehouse, step.settings, lambda done, total: step.report(done, total, "queries"))
    figures = {f"{mode} {metric}": value for (mode, metric), value in measured.table.values.items()}
    return Output(
        measured.scores,
        beside={"rankings": measured.rankings, "eval_corpus": measured.corpus},
        facts={"score table": Markdown(measured.table.to_markdown()), **figures},
    )
