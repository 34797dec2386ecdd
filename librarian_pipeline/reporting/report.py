"""Writes `reports/index.html`."""

from pathlib import Path

from librarian_pipeline.errors import UsageError
from librarian_pipeline.reporting.contents import gather
from librarian_pipeline.reporting.page import page
from librarian_pipeline.storage import atomic
from librarian_pipeline.workspace import Workspace


def write_report(workspace: Workspace) -> Path:
    """The page of the archive as it is now; returns its path. Raises `UsageError` where it can't be written."""
    path = workspace.archive.reports_dir / "index.html"
    text = page(gather(workspace))
    try:
        atomic.write_text(text, path)
    except OSError as error:
        raise UsageError(f"{path} can't be written ({error.strerror})", "make the archive writable") from error
    return path
