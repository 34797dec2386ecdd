"""The server over streamable HTTP: for this machine alone, unless a token and the names it is called by are set."""

import hmac
import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from librarian_pipeline.console import print_lines
from librarian_pipeline.errors import UsageError
from librarian_pipeline.serving.mcp.server import StrictServer

PATH = "/mcp"
HTTP_PORT = 80
LEAST_TOKEN = 16
UNAUTHORIZED = 401
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")


@dataclass(frozen=True)
class Listening:
    """Where, and who may come. `hosts` are the exact values of the `Host` header, port and all; `token` None: no token."""

    host: str
    port: int
    hosts: Sequence[str] = ()
    token: str | None = None


def serve_http(server: StrictServer, listening: Listening) -> None:
    """Until it is interrupted. Raises `UsageError` where it can't listen, or must not."""
    with _bound(listening) as listener:
        address, port = listener.getsockname()[:2]
        hosts = _hosts(address, port, listening)
        app: ASGIApp = server.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            # Exact values: the library's own defaults are prefixes, and for an address that is not loopback there are none.
            transport_security=TransportSecuritySettings(
                allowed_hosts=hosts, allowed_origins=[f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
            ),
        )
        if listening.token is not None:
            app = RequireToken(app, listening.token)
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, ws="none")
        print_lines([f"MCP server at http://{_named(address)}:{port}{PATH} (Ctrl-C ends it)"], to_stderr=True)
        uvicorn.Server(config).run(sockets=[listener])


class RequireToken:
    """Lets in only those who send `Authorization: Bearer TOKEN`; however much of it is right, the check takes as long."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = Headers(scope=scope).get("authorization", "").encode()
            if not hmac.compare_digest(given, self._expected):
                refusal = PlainTextResponse("a token is needed", UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})
                return await refusal(scope, receive, send)
        return await self._app(scope, receive, send)


def _bound(listening: Listening) -> socket.socket:
    """A socket that listens, after a look at the address that it got. Raises `UsageError`."""
    if listening.token is not None and (len(listening.token) < LEAST_TOKEN or not listening.token.isascii()):
        raise UsageError(f"MCP_TOKEN is no good token: at least {LEAST_TOKEN} ASCII characters", "make it longer")
    for host in listening.hosts:
        if not _HOST.fullmatch(host):
            raise UsageError(f"{host!r} is no host", "write name or name:port, as clients send it, without patterns")
    listener = socket.socket(socket.AF_INET6 if ":" in listening.host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((listening.host, listening.port))
        if not _is_loopback(listener.getsockname()[0]) and not (listening.token and listening.hosts):
            raise UsageError(
                f"{listening.host or 'every address'} can be reached from other machines",
                "set MCP_TOKEN and name the hosts with --allowed-host, or listen at 127.0.0.1",
            )
        listener.listen()
    except OSError as error:
        listener.close()
        where = f"{listening.host}:{listening.port}"
        raise UsageError(f"can't listen at {where} ({error.strerror or error})", "name another --port (MCP_PORT)") from error
    except UsageError:
        listener.close()
        raise
    return listener


def _hosts(address: str, port: int, listening: Listening) -> list[str]:
    """What was set; on loopback alone, its names."""
    if listening.hosts:
        return list(listening.hosts)
    names = {_named(address), "localhost"}
    with_port = [f"{name}:{port}" for name in sorted(names)]
    return [*with_port, *sorted(names)] if port == HTTP_PORT else with_port


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def _named(address: str) -> str:
    return f"[{address}]" if ":" in address else address
