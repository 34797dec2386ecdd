"""The evaluation over a warehouse: what the `eval_scores` asset, the command line and the tests share."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.judging import JudgedQuery, judge
from librarian_pipeline.evaluation.score_table import ScoreTable
from librarian_pipeline.evaluation.scoring import rank_queries, score_rankings
from librarian_pipeline.retrieval.embedders import embedder_card
from librarian_pipeline.retrieval.indexing import index_model, load_searcher
from librarian_pipeline.retrieval.modes import Searcher
from librarian_pipeline.settings import Settings
from librarian_pipeline.storage.schemas import EVAL_CORPUS, GOLD_SET
from librarian_pipeline.storage.warehouse import Warehouse


@dataclass(frozen=True)
class Measured:
    """Columns as in `schemas.EVAL_SCORES`, `RANKINGS` and, in one row, `EVAL_CORPUS`."""

    scores: pa.Table
    rankings: pa.Table
    corpus: pa.Table

    @property
    def table(self) -> ScoreTable:
        return ScoreTable.of(self.scores, self.corpus)


def measure(warehouse: Warehouse, settings: Settings, on_progress: Callable[[int, int], None] | None = None) -> Measured:
    """Searches every gold query in every mode over the stored indexes, and scores what comes back.

    Raises `UsageError` if there is no index yet.
    """
    searcher = load_searcher(warehouse, settings)
    queries = judge(warehouse.read_all("gold_set", ["all"], GOLD_SET), searcher.passages)
    rankings = rank_queries(searcher, queries, on_progress)
    scores = score_rankings(rankings, queries, settings.evaluation)
    return Measured(scores, rankings, _corpus(searcher, queries, embedder_card(index_model(warehouse, settings)).label))


def _corpus(searcher: Searcher, queries: Sequence[JudgedQuery], dense_backend: str) -> pa.Table:
    lost = sum(len(query.lost_spans) for query in queries)
    row = {
        "n_passages": len(searcher.passages),
        "n_episodes": len({passage.episode_id for passage in searcher.passages.values()}),
        "n_queries": sum(bool(query.hits_by_span) for query in queries),
        "n_spans": lost + sum(len(query.hits_by_span) for query in queries),
        "n_lost_spans": lost,
        "dense_backend": dense_backend,
    }
    return pa.Table.from_pylist([row], schema=EVAL_CORPUS)


def stored_score_table(warehouse: Warehouse) -> ScoreTable:
    """The figures as they were measured. Raises `UsageError` if nothing has been measured yet."""
    if warehouse.committed("eval_scores") is None:
        raise nothing_measured(warehouse)
    return ScoreTable.of(warehouse.read("eval_scores"), warehouse.read("eval_corpus"))


def nothing_measured(warehouse: Warehouse) -> UsageError:
    home = shlex.quote(str(warehouse.root.parent))
    return UsageError("nothing has been measured yet", f"run `librarian run --home {home}`")
