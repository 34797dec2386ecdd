"""Scores the modes on Azure beside those on this machine: the same queries, the same functions, one table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from librarian_pipeline.azure.gates import AZURE_GATES
from librarian_pipeline.azure.searching import AZURE_MODES, BEST_KNOWN
from librarian_pipeline.derivation.evaluation import gates_table
from librarian_pipeline.evaluation.baseline import read_baseline
from librarian_pipeline.evaluation.gates import ACCEPT, Candidate, evaluate_gates
from librarian_pipeline.evaluation.judging import judge
from librarian_pipeline.evaluation.jump_in import jump_ins
from librarian_pipeline.evaluation.measure import nothing_measured
from librarian_pipeline.evaluation.ranks import Measurement, measurement_of, results_of
from librarian_pipeline.evaluation.score_table import ScoreTable
from librarian_pipeline.evaluation.scoring import Searches, rank_queries, score_rankings
from librarian_pipeline.lineage.ranked_from import ranked_from
from librarian_pipeline.retrieval.citations import Citer
from librarian_pipeline.retrieval.indexing import load_searcher
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.storage.content import content_hash
from librarian_pipeline.storage.provenance import Provenance, fingerprint
from librarian_pipeline.storage.schemas import GOLD_SET
from librarian_pipeline.workspace import Workspace

EVAL = "azure_eval_scores"
RANKINGS = "azure_rankings"
JUMPS = "azure_jump_ins"
GATE_TABLE = "azure_gates"
ACCEPT_AZURE = "`librarian eval --azure --accept`"
ALL_MODES = (*MODES, *AZURE_MODES)


@dataclass(frozen=True)
class AzureMeasured:
    """`scores` and `rankings` hold the local modes as they were measured, then those on Azure."""

    scores: pa.Table
    rankings: pa.Table
    jump_ins: pa.Table
    corpus: pa.Table
    gates: pa.Table
    measurement: Measurement

    @property
    def table(self) -> ScoreTable:
        return ScoreTable.of(self.scores, self.corpus)


def measure_azure(
    workspace: Workspace,
    searcher: Searches,
    searched_in: Mapping[str, object],
    on_progress: Callable[[int, int], None] | None = None,
) -> AzureMeasured:
    """Searches every gold query in every mode on Azure. `searched_in` tells what can change the ranks there.

    The figures of the local modes are those that are stored. Raises `UsageError` if there are none, or no index.
    """
    warehouse, settings = workspace.warehouse, workspace.settings
    record = warehouse.committed("eval_scores")
    if record is None:
        raise nothing_measured(warehouse)
    local = load_searcher(warehouse, settings)
    gold = warehouse.read_all("gold_set", ["all"], GOLD_SET)
    queries = judge(gold, local.passages)
    rankings = rank_queries(searcher, queries, on_progress, AZURE_MODES)
    cited = jump_ins(rankings, queries, local.passages, Citer(warehouse, local), AZURE_MODES)
    scores = score_rankings(rankings, queries, cited, settings.evaluation, AZURE_MODES)
    together = _together(warehouse.read("rankings"), rankings)
    all_scores = _together(warehouse.read("eval_scores"), scores)
    corpus = warehouse.read("eval_corpus")
    results = results_of(together)
    measurement = measurement_of(
        fingerprint({"local": ranked_from(record.recipe, record.inputs), "azure": dict(searched_in)}),
        BEST_KNOWN,
        ALL_MODES,
        results,
        queries,
        gold,
        local.passages,
    )
    of_ranks = {(mode, metric): value for mode, by in measurement.figures().items() for metric, value in by.items()}
    figures = {**of_ranks, **ScoreTable.of(all_scores, corpus).values}
    baseline = read_baseline(baseline_path(workspace))
    found = evaluate_gates(Candidate(measurement, results, figures), baseline, settings.gates)
    gates = gates_table(
        [replace(gate, message=gate.message.replace(ACCEPT, ACCEPT_AZURE)) for gate in found if gate.gate in AZURE_GATES]
    )
    return AzureMeasured(all_scores, together, cited, corpus, gates, measurement)


def baseline_path(workspace: Workspace) -> Path:
    """Where the accepted measurement is, with the modes on Azure in it: apart from the one that decides on publication."""
    return workspace.archive.baseline_path.with_name("azure_baseline.json")


def store(workspace: Workspace, measured: AzureMeasured, searched_in: Mapping[str, object]) -> Provenance:
    """Keeps the figures in the warehouse, apart from those that decide on publication."""
    record = workspace.warehouse.committed("eval_scores")
    assert record is not None  # measured before
    return workspace.warehouse.write(
        EVAL,
        None,
        measured.scores,
        recipe={"azure": dict(searched_in), **workspace.settings.evaluation.model_dump()},
        inputs={"eval_scores": record.version},
        beside={RANKINGS: measured.rankings, JUMPS: measured.jump_ins, GATE_TABLE: measured.gates},
    )


def digest_of(listing: Mapping[str, str]) -> str:
    """One digest of all documents of the index."""
    table = pa.table({"key": sorted(listing), "digest": [listing[key] for key in sorted(listing)]})
    return content_hash(table)


def _together(first: pa.Table, second: pa.Table) -> pa.Table:
    return pa.concat_tables([first.replace_schema_metadata(), second.replace_schema_metadata()])
