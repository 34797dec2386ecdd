import ast
from pathlib import Path

import librarian_pipeline

ROOT = Path(librarian_pipeline.__file__).parent
ONLINE = ("requests", "urllib3", "urllib.request", "http.client", "httpx", "httpx2", "aiohttp", "openai", "azure")


def imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def goes_online(path: Path) -> bool:
    return any(name == online or name.startswith(f"{online}.") for name in imported(path) for online in ONLINE)


ASKED_FOR = {
    "answering/endpoint.py": "where [answers] base_url names an endpoint",
    "archive/feeds/download.py": "for `librarian import`",
}
AZURE = "azure/"
"""A room of its own, for `librarian eval --azure` and its assets, which ask for an account."""


def test_only_what_people_ask_to_go_online_does() -> None:
    online = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if goes_online(path)}
    assert {name for name in online if not name.startswith(AZURE)} == set(ASKED_FOR)
    assert any(name.startswith(AZURE) for name in online)
