"""The evaluation over a warehouse: what the `eval_scores` asset, the command line and the tests share."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.judging import JudgedQuery, judge
from librarian_pipeline.evaluation.metrics import per_query
from librarian_pipeline.evaluation.score_table import ScoreTable
from librarian_pipeline.evaluation.scoring import by_mode, rank_queries, score_rankings
from librarian_pipeline.retrieval.embedders import embedder_card
from librarian_pipeline.retrieval.indexing import chunk_versions, index_model, indexed_episodes, load_searcher
from librarian_pipeline.retrieval.modes import Searcher, passages_of
from librarian_pipeline.settings import Settings
from librarian_pipeline.storage.schemas import CHUNKS, EVAL_CORPUS, GOLD_SET
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
    dense_backend = embedder_card(index_model(warehouse, settings)).label
    return Measured(scores, rankings, _corpus(searcher, queries, dense_backend))


def _corpus(searcher: Searcher, queries: Sequence[JudgedQuery], dense_backend: str) -> pa.Table:
    lost = sum(len(query.lost_spans) for query in queries)
    row = {
        "n_passages": len(searcher.passages),
        "n_episodes": len({passage.episode_id for passage in searcher.passages.values()}),
        "n_queries": sum(bool(query.hits_by_span) for query in queries),
        "n_spans": lost + sum(len(query.hits_by_span) for query in queries),
        "n_lost_spans": lost,
        "dense_backend": dense_backend,
        "default_mode": searcher.default_mode,
    }
    return pa.Table.from_pylist([row], schema=EVAL_CORPUS)


def lost_labels(warehouse: Warehouse, gold: pa.Table | None = None) -> list[str]:
    """A line for each judged span, of the stored gold set or of another one, that no passage hits."""
    if gold is None and _all_were_found(warehouse):
        return []
    chunks = warehouse.read_all("chunks", indexed_episodes(warehouse), CHUNKS)
    judged = judge(gold if gold is not None else warehouse.read_all("gold_set", ["all"], GOLD_SET), passages_of(chunks))
    return [
        f"gold_set.json, query {query.query_id!r}: no passage meets {span}: mend its episode, times or heading"
        for query in judged
        for span in query.lost_spans
    ]


def _all_were_found(warehouse: Warehouse) -> bool:
    """Whether the last evaluation, of the same gold set, index and passages as are stored now, lost no label."""
    evaluated, gold = warehouse.committed("eval_scores"), warehouse.committed("gold_set")
    index = warehouse.committed("bm25_raw_index")
    if evaluated is None or gold is None or index is None:
        return False
    now = {"gold_set": gold.version, "bm25_raw_index": index.version}
    now |= chunk_versions(warehouse, indexed_episodes(warehouse))
    if not now.items() <= evaluated.inputs.items():
        return False
    [corpus] = warehouse.read("eval_corpus").to_pylist()
    return int(corpus["n_lost_spans"]) == 0


def stored_score_table(warehouse: Warehouse) -> ScoreTable:
    """The figures as they were measured. Raises `UsageError` if nothing has been measured yet."""
    if warehouse.committed("eval_scores") is None:
        raise nothing_measured(warehouse)
    return ScoreTable.of(warehouse.read("eval_scores"), warehouse.read("eval_corpus"))


def nothing_measured(warehouse: Warehouse) -> UsageError:
    home = shlex.quote(str(warehouse.root.parent))
    return UsageError("nothing has been measured yet", f"run `librarian run --home {home}`")


@dataclass(frozen=True)
class QueryScores:
    """The stored rankings, query by query: `values` by mode, metric and query id, of the queries that have judged passages.

    `lost` holds, of each judged query, the spans that no passage hits.
    """

    values: Mapping[str, Mapping[str, Mapping[str, float]]]
    lost: Mapping[str, tuple[str, ...]]


def query_scores(warehouse: Warehouse) -> QueryScores:
    """Of the figures as they were measured, those of each query."""
    chunks = warehouse.read_all("chunks", indexed_episodes(warehouse), CHUNKS)
    judged = judge(warehouse.read_all("gold_set", ["all"], GOLD_SET), passages_of(chunks))
    scorable = [query for query in judged if query.hits_by_span]
    rankings = by_mode(warehouse.read("rankings"))
    return QueryScores(
        values={mode: per_query(scorable, ranking) for mode, ranking in rankings.items()},
        lost={query.query_id: query.lost_spans for query in judged},
    )
