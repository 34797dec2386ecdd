"""What `librarian trace` shows: where a passage, or the ranks of a gold query, come from."""

from dataclasses import asdict

from librarian_pipeline.console import print_json, print_lines
from librarian_pipeline.errors import UsageError
from librarian_pipeline.tracing.showing import lines_of
from librarian_pipeline.tracing.trace import trace_gold_query, trace_passages
from librarian_pipeline.workspace import Workspace


def print_trace(workspace: Workspace, asked: str | None, query: str | None, *, as_json: bool) -> None:
    """Of a passage or moment, or of a query by its id. Raises `UsageError` unless one of the two is given, and known."""
    if asked is not None and query is None:
        found = trace_passages(workspace, asked)
    elif query is not None and asked is None:
        found = trace_gold_query(workspace, query)
    else:
        raise UsageError("trace takes a passage or a query", "name one: `librarian trace ep03:t004`, or --query q017")
    if as_json:
        print_json(asdict(found))
    else:
        print_lines(lines_of(found))
    if not found.is_current:
        print_lines(["note: the archive has changed since; `librarian run` brings it up to date"], to_stderr=True)
