import ast
from pathlib import Path

import librarian_pipeline

ROOT = Path(librarian_pipeline.__file__).parent
ONLINE = ("requests", "urllib3", "urllib.request", "http.client", "httpx", "aiohttp")


def imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def goes_online(path: Path) -> bool:
    return any(name == online or name.startswith(f"{online}.") for name in imported(path) for online in ONLINE)


def test_only_the_download_of_feeds_goes_online() -> None:
    assert [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if goes_online(path)] == [
        "archive/feeds/download.py"
    ]
