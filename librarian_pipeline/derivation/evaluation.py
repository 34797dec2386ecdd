"""How well each mode finds things: `gold_set`, `eval_scores`."""

from collections.abc import Sequence
from dataclasses import asdict, replace

import pyarrow as pa

from librarian_pipeline.derivation.step import Markdown, Output, Sample, Step
from librarian_pipeline.errors import LibrarianError
from librarian_pipeline.evaluation.baseline import read_baseline
from librarian_pipeline.evaluation.gates import REPAIR, Candidate, GateResult, evaluate_gates
from librarian_pipeline.evaluation.gold import gold_table, read_gold_set
from librarian_pipeline.evaluation.history import TABLE, read_history, record_measurement
from librarian_pipeline.evaluation.history_plot import history_markdown
from librarian_pipeline.evaluation.measure import Measured, measure
from librarian_pipeline.evaluation.ranks import Measurement, Results, measurement_of, results_of
from librarian_pipeline.lineage.graph import upstream_items
from librarian_pipeline.lineage.ranked_from import ranked_from
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.storage.content import content_hash
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.storage.schemas import GATES, GOLD_SET

PLOTTED = "MRR"


def gold_set(step: Step) -> Output:
    """Hand-labelled queries and the spans of the source that answer them."""
    table = gold_table(read_gold_set(step.workspace.archive.gold_path))
    sample = Sample(table.slice(0, 5).to_pylist(), ["query_id", "query", "kind", "episode_id"])
    return Output(table, facts={"n_queries": len(table.column("query_id").unique()), "sample": sample})


def eval_scores(step: Step) -> Output:
    """R@1, R@3, R@5 and MRR of every retrieval mode on the gold set, with confidence intervals, and what the gates say."""
    baseline = read_baseline(step.workspace.archive.baseline_path)
    damaged = _damaged(step)
    earlier = _earlier_rankings(step)
    # A step that is not due was asked for, to see whether the same comes out: it has to search anew.
    reuse = step.reuse and step.verdict.due
    known = earlier if reuse else None

    def report(done: int, total: int) -> None:
        step.report(done, total, "queries")

    try:
        measured = measure(step.warehouse, step.settings, report, known, reuse=reuse)
    except pa.ArrowException as error:
        if not damaged:
            raise
        raise LibrarianError(f"{damaged[0]} is not what was written, and can't be read", REPAIR) from error
    results = results_of(measured.rankings)
    measurement = _measurement(step, measured, results)
    of_ranks = {(mode, metric): value for mode, by in measurement.figures().items() for metric, value in by.items()}
    candidate = Candidate(
        measurement,
        results,
        {**of_ranks, **measured.table.values},
        earlier=_measurement(step, measured, results_of(earlier)) if earlier is not None and known is None else None,
        readme=_readme(step),
        damaged=damaged,
    )
    gates = gates_table(evaluate_gates(candidate, baseline, step.settings.gates))
    figures = {f"{mode} {metric}": value for (mode, metric), value in measured.table.values.items()}
    output = Output(
        measured.scores,
        beside={**measured.beside, "gates": gates},
        facts={
            "score table": Markdown(measured.table.to_markdown()),
            "gates": Sample(gates.to_pylist(), ["gate", "passed", "severity", "message"]),
            **figures,
        },
    )
    return _recorded(step, output)


def _earlier_rankings(step: Step) -> pa.Table | None:
    """Those of the last measurement, if it was of the very same passages, queries and settings."""
    record = step.stored
    if record is None or ranked_from(record.recipe, record.inputs) != ranked_from(step.recipe, step.inputs):
        return None
    return None if step.warehouse.damaged("eval_scores") else step.warehouse.read("rankings")


def _measurement(step: Step, measured: Measured, results: Results) -> Measurement:
    fingerprint = ranked_from(step.recipe, step.inputs)
    gold = step.warehouse.read_all("gold_set", ["all"], GOLD_SET)
    return measurement_of(
        fingerprint, step.settings.retrieval.default_mode, MODES, results, measured.queries, gold, measured.passages
    )


def _damaged(step: Step) -> list[str]:
    items = upstream_items(step.item, step.episodes)
    return [file for item in items for file in step.warehouse.damaged(item.asset, item.partition)]


def _readme(step: Step) -> str | None:
    path = step.workspace.readme_path
    try:
        return path.read_text(encoding="utf-8") if path is not None else None
    except (OSError, UnicodeDecodeError):
        return None


def gates_table(results: Sequence[GateResult]) -> pa.Table:
    """Columns as in `schemas.GATES`."""
    rows = [{**asdict(result), "severity": str(result.severity)} for result in results]
    return pa.Table.from_pylist(rows, schema=GATES)


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
