"""What `librarian web` does: serves the pages on this machine until it is interrupted."""

import socket
import webbrowser

import uvicorn

from librarian_pipeline.console import print_lines
from librarian_pipeline.errors import UsageError
from librarian_pipeline.serving.library import Library
from librarian_pipeline.web.app import LOOPBACK, web_app
from librarian_pipeline.workspace import Workspace


def serve_pages(workspace: Workspace, port: int, *, open_browser: bool) -> None:
    """Raises `UsageError` where there is no archive, or where something else listens at that port."""
    workspace.archive.discover()
    address = f"http://{LOOPBACK}:{port}/"
    config = uvicorn.Config(
        web_app(Library(workspace), port), log_level="warning", access_log=False, server_header=False, ws="none"
    )
    with _listening(port) as listener:
        print_lines([f"{workspace.home} is at {address} (Ctrl-C ends it)"])
        if open_browser:
            webbrowser.open(address)
        uvicorn.Server(config).run(sockets=[listener])


def _listening(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise UsageError(f"can't listen at {LOOPBACK}:{port} ({error.strerror})", "name another one with --port") from error
    return listener
