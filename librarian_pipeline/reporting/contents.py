"""What the report tells, gathered from an archive. Nothing is measured or derived here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from librarian_pipeline.errors import LibrarianError
from librarian_pipeline.evaluation.gold_health import gold_health
from librarian_pipeline.evaluation.history import read_history
from librarian_pipeline.evaluation.hygiene import HygieneCheck
from librarian_pipeline.evaluation.score_table import ScoreTable
from librarian_pipeline.lineage.graph import ASSETS
from librarian_pipeline.lineage.outdated import State, Verdict, verdicts
from librarian_pipeline.retrieval.embedders import embedder_card
from librarian_pipeline.retrieval.indexing import index_model
from librarian_pipeline.settings import Settings
from librarian_pipeline.speech.weights import resolve_whisper
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline.workspace import Workspace

PLOTTED = "MRR"
"""The metric whose history is shown."""

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Model:
    """`digest` is empty, and `source` says why, where the weights aren't on this machine."""

    purpose: str
    name: str
    source: str
    digest: str


@dataclass(frozen=True)
class StoredOutput:
    """An asset as it is stored: how many partitions, rows, and the recipes that they were made by."""

    asset: str
    n_partitions: int
    n_rows: int
    recipes: tuple[str, ...]


@dataclass(frozen=True)
class Contents:
    """Tables that aren't there are empty. `confidence` is that of the intervals, `snapshot` the one that is served."""

    home: str
    made_at: datetime
    caption: str
    confidence: float
    scores: Rows
    gates: Rows
    jump_ins: Rows
    hygiene: Sequence[HygieneCheck]
    history: pa.Table
    episodes: Rows
    left_out: Sequence[str]
    models: Sequence[Model]
    outputs: Sequence[StoredOutput]
    snapshot: str | None
    out_of_date: Sequence[tuple[str, Verdict]]


def gather(workspace: Workspace, now: datetime | None = None) -> Contents:
    """Raises `UsageError` if there is no archive, or its settings are wrong; what isn't derived yet is left empty."""
    warehouse, settings = workspace.warehouse, workspace.settings
    discovery = workspace.archive.discover()
    found = verdicts(workspace.observe(discovery))
    is_measured = warehouse.committed("eval_scores") is not None
    return Contents(
        home=str(workspace.home),
        made_at=now or datetime.now(UTC),
        caption=ScoreTable.of(warehouse.read("eval_scores"), warehouse.read("eval_corpus")).caption if is_measured else "",
        confidence=_confidence(warehouse, settings),
        scores=_rows(warehouse, "eval_scores") if is_measured else [],
        gates=_beside_scores(warehouse, "gates"),
        jump_ins=_beside_scores(warehouse, "jump_ins"),
        hygiene=gold_health(warehouse, settings.gold),
        history=read_history(warehouse, metrics=[PLOTTED]),
        episodes=_rows(warehouse, "episodes"),
        left_out=[problem.line for problem in discovery.problems],
        models=_models(workspace),
        outputs=_outputs(warehouse),
        snapshot=workspace.snapshots.served_id(),
        out_of_date=[(str(item), verdict) for item, verdict in found.items() if verdict.state is not State.FRESH],
    )


def _rows(warehouse: Warehouse, table: str) -> Rows:
    rows: Rows = warehouse.read(table).to_pylist() if warehouse.provenance(table) else []
    return rows


def _beside_scores(warehouse: Warehouse, table: str) -> Rows:
    """A table that may or may not be written with the scores."""
    record = warehouse.committed("eval_scores")
    return _rows(warehouse, table) if record is not None and table in record.beside else []


def _confidence(warehouse: Warehouse, settings: Settings) -> float:
    """As it was when the stored figures were measured."""
    record = warehouse.committed("eval_scores")
    return (
        float(record.recipe.get("confidence", settings.evaluation.confidence)) if record else settings.evaluation.confidence
    )


def _models(workspace: Workspace) -> list[Model]:
    settings, models = workspace.settings, []
    try:
        whisper = resolve_whisper(settings.whisper.model)[1]
        models.append(Model("speech to text", whisper.name, whisper.source, whisper.digest))
    except LibrarianError as error:
        models.append(Model("speech to text", settings.whisper.model, str(error), ""))
    try:
        used = index_model(workspace.warehouse, settings) if workspace.warehouse.provenance("vector_index") else None
        card = embedder_card(used or settings.embeddings)
        models.append(Model("embeddings", card.model, card.source, card.digest))
    except LibrarianError as error:
        models.append(Model("embeddings", settings.embeddings.model, str(error), ""))
    return models


def _outputs(warehouse: Warehouse) -> list[StoredOutput]:
    outputs = []
    for node in ASSETS:
        records = [record for name in warehouse.partitions(node.name) if (record := warehouse.provenance(node.name, name))]
        recipes = tuple(sorted({record.recipe_fingerprint for record in records}))
        outputs.append(StoredOutput(node.name, len(records), sum(record.rows for record in records), recipes))
    return outputs
