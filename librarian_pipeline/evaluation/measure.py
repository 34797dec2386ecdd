"""The evaluation over a warehouse: what the `eval_scores` asset, the command line and the tests share."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.judging import JudgedQuery, judge
from librarian_pipeline.evaluation.jump_in import jump_ins
from librarian_pipeline.evaluation.metrics import per_query
from librarian_pipeline.evaluation.power import detectable
from librarian_pipeline.evaluation.score_table import ScoreTable
from librarian_pipeline.evaluation.scoring import by_mode, rank_queries, score_rankings
from librarian_pipeline.evaluation.trec import Exported, export_trec, qrels_table
from librarian_pipeline.retrieval.citations import Citer
from librarian_pipeline.retrieval.embedders import embedder_card
from librarian_pipeline.retrieval.indexing import index_model, indexed_episodes, load_searcher
from librarian_pipeline.retrieval.modes import Passage, Searcher, passages_of
from librarian_pipeline.retrieval.reuse import embedder_of
from librarian_pipeline.settings import Settings
from librarian_pipeline.storage.schemas import CHUNKS, EVAL_CORPUS, GOLD_SET
from librarian_pipeline.storage.warehouse import Warehouse


@dataclass(frozen=True)
class Measured:
    """Columns as in `schemas.EVAL_SCORES`, `RANKINGS`, `JUMP_INS`, `QRELS`, `DETECTABLE` and, in one row, `EVAL_CORPUS`."""

    scores: pa.Table
    rankings: pa.Table
    corpus: pa.Table
    jump_ins: pa.Table
    qrels: pa.Table
    detectable: pa.Table
    queries: Sequence[JudgedQuery]
    passages: Mapping[str, Passage]

    @property
    def table(self) -> ScoreTable:
        return ScoreTable.of(self.scores, self.corpus)

    @property
    def beside(self) -> dict[str, pa.Table]:
        """All but the scores, by their names in the warehouse."""
        return {
            "rankings": self.rankings,
            "eval_corpus": self.corpus,
            "jump_ins": self.jump_ins,
            "qrels": self.qrels,
            "detectable": self.detectable,
        }


def measure(
    warehouse: Warehouse,
    settings: Settings,
    on_progress: Callable[[int, int], None] | None = None,
    rankings: pa.Table | None = None,
    *,
    reuse: bool = True,
) -> Measured:
    """Searches every gold query in every mode over the stored indexes, and scores what comes back.

    `rankings` are what would come back, where that is known: then nothing is searched. Without `reuse`, every query is
    embedded anew; otherwise its vector may be that of an earlier evaluation.

    Raises `UsageError` if there is no index yet.
    """
    searcher = load_searcher(warehouse, settings, lambda model: embedder_of(model, warehouse.cache_dir, reuse=reuse))
    queries = judge(warehouse.read_all("gold_set", ["all"], GOLD_SET), searcher.passages)
    rankings = rank_queries(searcher, queries, on_progress) if rankings is None else rankings
    cited = jump_ins(rankings, queries, searcher.passages, Citer(warehouse, searcher))
    dense_backend = embedder_card(index_model(warehouse, settings)).label
    return Measured(
        scores=score_rankings(rankings, queries, cited, settings.evaluation),
        rankings=rankings,
        corpus=_corpus(searcher, queries, dense_backend),
        jump_ins=cited,
        qrels=qrels_table(queries),
        detectable=detectable(queries, by_mode(rankings), settings.retrieval.default_mode),
        queries=queries,
        passages=searcher.passages,
    )


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


def stored_score_table(warehouse: Warehouse, split: str | None = None) -> ScoreTable:
    """The figures as they were measured, of all queries or of one split.

    Raises `UsageError` if nothing has been measured yet, or no query of the split.
    """
    if warehouse.committed("eval_scores") is None:
        raise nothing_measured(warehouse)
    table = ScoreTable.of(warehouse.read("eval_scores"), warehouse.read("eval_corpus"), split)
    if split is not None and not table.rows:
        raise UsageError(f"no query of the {split} split was measured", "leave out --split, or give queries that split")
    return table


def export_stored(warehouse: Warehouse, folder: Path, split: str | None = None) -> Exported:
    """Writes the judgements and rankings as they were measured, of all queries or of one split, into `folder`.

    Raises `UsageError` if nothing has been measured yet, or nothing by this version, or if the folder can't be written.
    """
    record = warehouse.committed("eval_scores")
    if record is None or "qrels" not in record.beside:
        raise nothing_measured(warehouse)
    rankings, qrels = warehouse.read("rankings"), warehouse.read("qrels")
    if split is not None:
        gold = warehouse.read_all("gold_set", ["all"], GOLD_SET)
        wanted = gold.filter(pc.field("split") == split).column("query_id")
        rankings, qrels = (table.filter(pc.is_in(table.column("query_id"), wanted)) for table in (rankings, qrels))
    return export_trec(rankings, qrels, folder)


def stored_gates(warehouse: Warehouse) -> list[dict[str, Any]]:
    """The rows of `schemas.GATES` of the last measurement; none if there is none yet, or one by an older version."""
    record = warehouse.committed("eval_scores")
    rows: list[dict[str, Any]] = warehouse.read("gates").to_pylist() if record and "gates" in record.beside else []
    return rows


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
