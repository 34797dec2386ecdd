"""How well each mode finds things: `gold_set`, `eval_scores`."""

from dataclasses import replace

from librarian_pipeline.derivation.step import Markdown, Output, Sample, Step
from librarian_pipeline.evaluation.gold import gold_table, read_gold_set
from librarian_pipeline.evaluation.history import TABLE, read_history, record_measurement
from librarian_pipeline.evaluation.history_plot import history_markdown
from librarian_pipeline.evaluation.measure import measure
from librarian_pipeline.storage.content import content_hash
from librarian_pipeline.storage.provenance import Provenance

PLOTTED = "MRR"


def gold_set(step: Step) -> Output:
    """Hand-labelled queries and the spans of the source that answer them."""
    table = gold_table(read_gold_set(step.workspace.archive.gold_path))
    sample = Sample(table.slice(0, 5).to_pylist(), ["query_id", "query", "kind", "episode_id"])
    return Output(table, facts={"n_queries": len(table.column("query_id").unique()), "sample": sample})


def eval_scores(step: Step) -> Output:
    """How well every retrieval mode finds and cites what the gold set asks for, with confidence intervals."""
    measured = measure(step.warehouse, step.settings, lambda done, total: step.report(done, total, "queries"))
    figures = {f"{mode} {metric}": value for (mode, metric), value in measured.table.values.items()}
    output = Output(
        measured.scores,
        beside=measured.beside,
        facts={"score table": Markdown(measured.table.to_markdown()), **figures},
    )
    return _recorded(step, output)


def _recorded(step: Step, output: Output) -> Output:
    """The output, with its figures added to the history.

    That is done before it is stored, so that a step that is killed in between leaves a measurement too many, and not one too
    few.
    """
    hashes = {name: content_hash(table) for name, table in output.beside.items()}
    content, rows = content_hash(output.table), output.table.num_rows
    record = Provenance(step.item.asset, None, step.recipe, step.inputs, content, rows, hashes)
    record_measurement(
        step.warehouse,
        output.table,
        recipe=step.recipe,
        inputs=step.inputs,
        data_version=record.version,
        trigger=step.trigger,
    )
    plot = history_markdown(read_history(step.warehouse, metrics=[PLOTTED]), PLOTTED)
    return replace(output, facts={**output.facts, f"{PLOTTED} over time": Markdown(plot)}, appended=[TABLE])
