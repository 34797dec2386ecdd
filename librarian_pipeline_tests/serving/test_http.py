"""Who gets at the server over HTTP, and who doesn't."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from librarian_pipeline.errors import UsageError
from librarian_pipeline.serving.mcp.http import Listening, serve_http
from librarian_pipeline_tests.serving.clients import http_server, server_at
from librarian_pipeline_tests.serving.publishing import publish_number

TOKEN = "a-token-of-some-length"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("http")
    publish_number(home, 1)
    return home


@pytest.fixture(scope="module")
def port(home: Path) -> Iterator[int]:
    with http_server(home) as url:
        yield int(url.split(":")[2].partition("/")[0])


def post(port: int, host: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """The status, and all that comes after it."""
    body = json.dumps(HELLO).encode() if body is None else body
    usual = {"Host": host, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    named = {**usual, "Content_Length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in named.items()]
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall("\r\n".join(["POST /mcp HTTP/1.1", *lines, "Connection: close", "", ""]).encode() + body)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    return int(answer.split()[1]), answer


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_this_machine_gets_in_by_its_names(port: int, name: str) -> None:
    assert post(port, f"{name}:{port}")[0] == 200


@pytest.mark.parametrize(
    "host",
    ["{name}", "{name}:{port}0", "{name}:1", "{name}:{port}.evil.example", "evil.example:{port}", "0.0.0.0:{port}", ""],
)
def test_by_any_other_name_nobody_does(port: int, host: str) -> None:
    assert post(port, host.format(name="127.0.0.1", port=port))[0] in (400, 421)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:{port}0", "http://127.0.0.1:{port}.evil.example", "null"]
)
def test_a_page_from_elsewhere_does_not_get_in(port: int, origin: str) -> None:
    assert post(port, f"127.0.0.1:{port}", Origin=origin.format(port=port))[0] == 403


def test_a_page_of_this_server_does(port: int) -> None:
    assert post(port, f"127.0.0.1:{port}", Origin=f"http://127.0.0.1:{port}")[0] == 200


def test_a_body_of_five_megabytes_is_too_large(port: int) -> None:
    assert post(port, f"127.0.0.1:{port}", b" ", Content_Length="5000000")[0] == 413


@pytest.mark.parametrize(
    ("listening", "words"),
    [
        (Listening("0.0.0.0", 0), "can be reached from other machines"),
        (Listening("", 0), "every address can be reached"),
        (Listening("0.0.0.0", 0, token=TOKEN), "can be reached from other machines"),
        (Listening("0.0.0.0", 0, hosts=("box.example",)), "can be reached from other machines"),
        (Listening("0.0.0.0", 0, ("box.example",), "short"), "no good token"),
        (Listening("0.0.0.0", 0, ("*",), TOKEN), "'\\*' is no host"),
        (Listening("0.0.0.0", 0, ("box.example:*",), TOKEN), "is no host"),
        (Listening("nowhere.invalid", 0), "can't listen at nowhere.invalid"),
    ],
)
def test_a_server_for_others_does_not_start_without_a_token_and_exact_hosts(
    home: Path, listening: Listening, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        serve_http(server_at(home), listening)


def test_a_port_that_is_taken_is_one_clear_error(home: Path, port: int) -> None:
    with pytest.raises(UsageError, match=f"can't listen at 127.0.0.1:{port} .*name another --port"):
        serve_http(server_at(home), Listening("127.0.0.1", port))


def test_another_address_is_served_to_those_with_the_token_who_call_it_by_its_name(home: Path) -> None:
    given = f"Bearer {TOKEN}"
    with http_server(home, "--host", "0.0.0.0", "--allowed-host", "box.example", MCP_TOKEN=TOKEN) as url:
        port = int(url.split(":")[2].partition("/")[0])
        assert post(port, "box.example", Authorization=given)[0] == 200
        assert post(port, f"127.0.0.1:{port}", Authorization=given)[0] == 421
        for wrong in ("", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer", f"Basic {TOKEN}"):
            status, answer = post(port, "box.example", Authorization=wrong)
            assert status == 401
            assert b"librarian" not in answer


def test_a_real_client_with_the_token_searches(home: Path) -> None:
    async def search(url: str) -> str:
        async with (
            create_mcp_http_client(headers={"Authorization": f"Bearer {TOKEN}"}) as http_client,
            Client(streamable_http_client(url, http_client=http_client)) as client,
        ):
            result = await client.call_tool("search_podcast", {"query": "bell", "mode": "bm25_raw"})
            return str(result.structured_content["hits"][0]["chunk_id"])

    with http_server(home, MCP_TOKEN=TOKEN) as url:
        assert anyio.run(search, url) == "ep01:t001"
