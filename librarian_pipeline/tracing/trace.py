"""What `librarian trace` gives: passages, or a gold query with the passages that answer it, and all that they came from."""

from dataclasses import dataclass

from librarian_pipeline.storage import schemas
from librarian_pipeline.tracing.locating import locate
from librarian_pipeline.tracing.observing import Observed
from librarian_pipeline.tracing.outputs import INDEXES, OutputTrace, items_behind, trace_outputs
from librarian_pipeline.tracing.passage import PassageTrace, trace_passage
from librarian_pipeline.tracing.query import QueryTrace, trace_query
from librarian_pipeline.workspace import Workspace


@dataclass(frozen=True)
class Trace:
    """`outputs` lead from the files to the indexes, or to the scores of a query, each after all that it is derived from.

    `is_current` is False where anything in the archive is out of date.
    """

    query: QueryTrace | None
    passages: tuple[PassageTrace, ...]
    outputs: tuple[OutputTrace, ...]
    is_current: bool


def trace_passages(workspace: Workspace, asked: str) -> Trace:
    """The passage with an id (`ep03:t004`), or those at a moment (`ep03@08:03`).

    Raises `UsageError` if there is none, or nothing was derived yet.
    """
    rows = locate(workspace.warehouse, asked)
    observed = Observed.now(workspace)
    outputs = trace_outputs(observed, items_behind({row["episode_id"] for row in rows}, INDEXES))
    return Trace(None, tuple(trace_passage(observed, row) for row in rows), outputs, observed.is_settled)


def trace_gold_query(workspace: Workspace, query_id: str) -> Trace:
    """A query of the gold set, and of each of its judged spans the passage that was ranked best.

    Raises `UsageError` if the gold set has no such query, or nothing was measured yet.
    """
    observed = Observed.now(workspace)
    query = trace_query(observed, query_id)
    passages = []
    for chunk_id in query.judged:
        [row] = observed.rows("chunks", chunk_id.rpartition(":")[0], schemas.CHUNKS, chunk_id=chunk_id)
        passages.append(trace_passage(observed, row))
    way = items_behind({passage.episode_id for passage in passages}, ["eval_scores"])
    return Trace(query, tuple(passages), trace_outputs(observed, way), observed.is_settled)
