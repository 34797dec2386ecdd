"""The evaluation over a warehouse: what the `eval_scores` asset, the command line and the tests share."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.judging import judge
from librarian_pipeline.evaluation.score_table import ScoreTable
from librarian_pipeline.evaluation.scoring import rank_queries, score_rankings
from librarian_pipeline.retrieval.embedders import embedder_card
from librarian_pipeline.retrieval.indexing import index_model, indexed_episodes, load_searcher
from librarian_pipeline.retrieval.modes import passages_of
from librarian_pipeline.settings import Settings
from librarian_pipeline.storage.schemas import CHUNKS, GOLD_SET
from librarian_pipeline.storage.warehouse import Warehouse


@dataclass(frozen=True)
class Measured:
    """Columns as in `schemas.EVAL_SCORES` and `schemas.RANKINGS`."""

    scores: pa.Table
    rankings: pa.Table
    table: ScoreTable


def measure(warehouse: Warehouse, settings: Settings, on_progress: Callable[[int, int], None] | None = None) -> Measured:
    """Searches every gold query in every mode over the stored indexes, and scores what comes back.

    Raises `UsageError` if there is no index yet.
    """
    searcher = load_searcher(warehouse, settings)
    queries = judge(warehouse.read_all("gold_set", ["all"], GOLD_SET), searcher.passages)
    rankings = rank_queries(searcher, queries, on_progress)
    scores = score_rankings(rankings, queries, settings.evaluation)
    return Measured(scores, rankings, _score_table(scores, warehouse, settings))


def lost_labels(warehouse: Warehouse) -> list[str]:
    """A line for each judged span that no passage hits."""
    chunks = warehouse.read_all("chunks", indexed_episodes(warehouse), CHUNKS)
    judged = judge(warehouse.read_all("gold_set", ["all"], GOLD_SET), passages_of(chunks))
    return [
        f"gold_set.json, query {query.query_id!r}: no passage meets {span}: mend its episode, times or heading"
        for query in judged
        for span in query.lost_spans
    ]


def stored_score_table(warehouse: Warehouse, settings: Settings) -> ScoreTable:
    """The table of the stored figures. Raises `UsageError` if nothing has been measured yet."""
    if warehouse.committed("eval_scores") is None:
        raise UsageError("nothing has been measured yet", f"run `librarian run --home {warehouse.root.parent}`")
    return _score_table(warehouse.read("eval_scores"), warehouse, settings)


def _score_table(scores: pa.Table, warehouse: Warehouse, settings: Settings) -> ScoreTable:
    chunks = warehouse.read_all("chunks", indexed_episodes(warehouse), CHUNKS)
    card = embedder_card(index_model(warehouse, settings))
    return ScoreTable.from_scores(
        scores,
        n_passages=chunks.num_rows,
        n_episodes=len(chunks.column("episode_id").unique()),
        dense_backend=card.label,
    )
