"""`librarian serve`, which `python -m librarian_pipeline.serving.mcp_server` is, too: the MCP server on stdio or HTTP."""

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from librarian_pipeline.errors import LibrarianError
from librarian_pipeline.settings import load_settings

if TYPE_CHECKING:
    from librarian_pipeline.serving.library import Library
    from librarian_pipeline.serving.mcp.http import Listening


class LazyLibrary:
    """Opens the library of an archive when it is first called, once for all threads.

    What that imports takes longer than the handshake, for which clients wait.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._library: Library | None = None
        self._lock = threading.Lock()

    def __call__(self) -> "Library":
        """Raises `UsageError` if the settings are wrong."""
        with self._lock:
            if self._library is None:
                from librarian_pipeline.serving.library import Library
                from librarian_pipeline.workspace import Workspace

                self._library = Library(Workspace.open(self._home))
            return self._library


def serve(home: Path, listening: "Listening | None" = None, *, warm: bool = False) -> None:
    """Until the client leaves, or it is interrupted; without `listening`, on stdio. Raises `UsageError`."""
    from librarian_pipeline.serving.mcp.server import build_server

    library = LazyLibrary(home)
    server = build_server(library, load_settings(home).serving)
    if warm:
        threading.Thread(target=_warm_up, args=(library,), daemon=True).start()
    if listening is None:
        if sys.stdin.isatty():
            from librarian_pipeline.console import print_lines

            print_lines(
                ["MCP server on stdio, for a client that starts it; --http serves an address (Ctrl-C ends it)"],
                to_stderr=True,
            )
        # Nothing is left undone by a reader. Python's own way would wait for the thread that waits for the client.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        server.run("stdio")
    else:
        from librarian_pipeline.serving.mcp.http import serve_http

        serve_http(server, listening)


def _warm_up(library: LazyLibrary) -> None:
    try:
        library().warm_up()
    except LibrarianError as error:  # the first request says so again
        from librarian_pipeline.console import print_lines

        print_lines([f"not warmed up: {error}"], to_stderr=True)


if __name__ == "__main__":
    from librarian_pipeline.cli import main

    sys.argv[1:1] = ["serve"]
    main()
