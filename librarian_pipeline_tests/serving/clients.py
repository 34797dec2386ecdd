"""The same server by each transport, with the real client."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from mcp import Client, StdioServerParameters

from librarian_pipeline.serving.library import Library
from librarian_pipeline.serving.mcp.server import StrictServer, build_server
from librarian_pipeline.settings import ServingSettings
from librarian_pipeline_tests.conftest import environment
from librarian_pipeline_tests.serving.publishing import workspace_at

MODULE = "librarian_pipeline.serving.mcp_server"
TRANSPORTS = ("memory", "stdio", "http")
NOISE = Path(__file__).parent / "noise"
"""On the path of a server, prints to its standard output whenever a library of ours is imported."""


def server_at(home: Path, serving: ServingSettings | None = None) -> StrictServer:
    library = Library(workspace_at(home))
    return build_server(lambda: library, serving or ServingSettings())


def server_environment(**changes: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), changes.pop("PYTHONPATH", None)]))
    plain = {name: value for name, value in environment().items() if not name.startswith("MCP_")}
    return {**plain, "LIBRARIAN_EMBEDDINGS__MODEL": "char-ngram", "PYTHONPATH": path, **changes}


@asynccontextmanager
async def connected(transport: str, home: Path) -> AsyncIterator[Client]:
    if transport == "memory":
        async with Client(server_at(home)) as client:
            yield client
    elif transport == "stdio":
        arguments = ["-m", MODULE, "--home", str(home)]
        env = server_environment(PYTHONPATH=str(NOISE))
        async with Client(StdioServerParameters(command=sys.executable, args=arguments, env=env)) as client:
            yield client
    else:
        with http_server(home) as url:
            async with Client(url) as client:
                yield client


@contextmanager
def http_server(home: Path, *options: str, **env: str) -> Iterator[str]:
    """Its address, once it listens."""
    command = [sys.executable, "-m", MODULE, "--home", str(home), "--port", "0", *options]
    process = subprocess.Popen(command, env=server_environment(MCP_HTTP="1", **env), stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("MCP server at http://"), line
        yield line.split()[3]
    finally:
        process.terminate()
        process.communicate(timeout=20)
