"""The whole sample archive, from nothing: what the README shows is what a run gives. `make test-sample` takes minutes."""

import re
import shutil
from pathlib import Path

import anyio
import pytest

from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import REPOSITORY, SAMPLE, RunResult, copy_sources, run_librarian
from librarian_pipeline_tests.serving.ranks import measured_ranks, served_ranks

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = copy_sources(tmp_path_factory.mktemp("whole") / "data")
    shutil.copytree(SAMPLE / "demos", home / "demos")
    return home


@pytest.fixture(scope="module")
def result(home: Path) -> RunResult:
    return run_librarian("run", "--home", str(home), timeout=1_200)


def table_in(text: str) -> list[str]:
    """The caption of a score table, and its rows."""
    lines = [line.rstrip() for line in text.splitlines()]
    start = next(number for number, line in enumerate(lines) if " passages of " in line)
    return lines[start : lines.index("", start + 2)]


def test_a_run_from_nothing_ends_well_and_publishes(result: RunResult) -> None:
    assert result.returncode == 0, result.stderr
    assert re.search(r"^published: [0-9a-f]{16}$", result.stdout, re.MULTILINE)


def test_the_score_table_of_the_readme_is_that_of_the_run(result: RunResult) -> None:
    shown = re.search(r"^\$ make run\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert table_in(shown[1]) == table_in(result.stdout)


def test_the_search_of_the_readme_prints_what_is_shown_there(home: Path, result: RunResult) -> None:
    shown = re.search(r'^\$ \S+ search "(.*)" --home data -k 1\n(.*?)^published index', README, re.MULTILINE | re.DOTALL)
    assert shown is not None
    printed = run_librarian("search", shown[1], "--home", str(home), "-k", "1").stdout
    assert printed.replace(home.as_uri(), "file:///home/me/data").startswith(shown[2])


def test_the_three_demonstrations_show_what_they_promise(home: Path, result: RunResult) -> None:
    shown = run_librarian("demo", "--home", str(home))
    assert shown.returncode == 0, shown.stdout
    assert re.findall(r"^[1-9]\. ", shown.stdout, re.MULTILINE) == ["1. ", "2. ", "3. "]
    assert "NOT AS PROMISED" not in shown.stdout


def test_every_gold_query_is_served_in_every_mode_at_the_ranks_that_were_measured(home: Path, result: RunResult) -> None:
    workspace = Workspace.open(home)
    snapshot = workspace.snapshots.current()
    assert snapshot is not None
    measured = measured_ranks(snapshot)
    assert len(measured) > 300 * len(MODES)
    assert anyio.run(served_ranks, workspace, snapshot) == measured
