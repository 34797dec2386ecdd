"""What `librarian episodes` shows: the catalogue as it was last derived, with what is wrong with each episode."""

import shlex

from librarian_pipeline.archive.timecodes import format_timecode
from librarian_pipeline.console import print_json, print_table
from librarian_pipeline.errors import UsageError
from librarian_pipeline.workspace import Workspace


def print_catalogue(workspace: Workspace, *, as_json: bool) -> None:
    """That of the warehouse: it tells of episodes that failed, too, which keep an index from being published."""
    if workspace.warehouse.committed("episodes") is None:
        raise UsageError("there is no catalogue yet", f"run `librarian run --home {shlex.quote(str(workspace.home))}`")
    rows = workspace.warehouse.read("episodes").to_pylist()
    if as_json:
        print_json(rows)
        return
    print_table(
        ["id", "title", "date", "language", "length", "passages", "status"],
        [
            [
                row["episode_id"],
                row["title"] or "",
                row["published_at"] or "",
                row["language"] or "",
                format_timecode(row["duration_ms"]) if row["duration_ms"] else "",
                str(row["n_chunks_notes"] + row["n_chunks_transcript"]),
                ": ".join(filter(None, [row["status"], row["status_reason"]])),
            ]
            for row in rows
        ],
    )
