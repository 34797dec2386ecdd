"""What a server gives for the gold queries, beside what was measured."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client

from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.serving.library import Library
from librarian_pipeline.serving.mcp.arguments import MAX_K
from librarian_pipeline.serving.mcp.server import build_server
from librarian_pipeline.settings import ServingSettings
from librarian_pipeline.storage.snapshot import Snapshot
from librarian_pipeline.workspace import Workspace

Ranks = dict[tuple[str, str], list[tuple[int, str, float]]]
"""(rank, passage, score) by mode and query."""


@asynccontextmanager
async def client_of(workspace: Workspace, serving: ServingSettings | None = None) -> AsyncIterator[Client]:
    library = Library(workspace)
    async with Client(build_server(lambda: library, serving or workspace.settings.serving)) as client:
        yield client


async def search(client: Client, **asked: Any) -> dict[str, Any]:
    result = await client.call_tool("search_podcast", asked)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found


def measured_ranks(snapshot: Snapshot) -> Ranks:
    """Of every query that was measured, as far as a tool reaches; none where a mode found nothing."""
    rows = snapshot.tables.read("rankings").to_pylist()
    measured: Ranks = {(mode, row["query_id"]): [] for row in rows for mode in MODES}
    for row in rows:
        if row["rank"] <= MAX_K:
            measured[row["mode"], row["query_id"]].append((row["rank"], row["chunk_id"], row["score"]))
    return measured


async def served_ranks(workspace: Workspace, snapshot: Snapshot) -> Ranks:
    queries = {row["query_id"]: row["query"] for row in snapshot.tables.read("gold_set").to_pylist()}
    served: Ranks = {}
    async with client_of(workspace) as client:
        for mode, query_id in measured_ranks(snapshot):
            found = await search(client, query=queries[query_id], mode=mode, k=MAX_K)
            assert found["snapshot"] == snapshot.id
            served[mode, query_id] = [(hit["rank"], hit["chunk_id"], hit["score"]) for hit in found["hits"]]
    return served
