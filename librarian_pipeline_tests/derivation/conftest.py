import shutil
from pathlib import Path

import pytest

from librarian_pipeline.derivation.updating import Update, bring_up_to_date, in_this_process
from librarian_pipeline.lineage.planning import Planner, Scope
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.silent import Silent
from librarian_pipeline_tests.synthetic import write_archive


def update(workspace: Workspace, scope: Scope | None = None) -> Update:
    """Brings an archive up to date by what `librarian run` does, without Dagster."""
    return bring_up_to_date(workspace, Planner(scope or Scope()), Silent(), in_this_process(workspace, Silent()))


@pytest.fixture(scope="session")
def _derived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("gated") / "archive"
    write_archive(home, 40, minutes=1)
    workspace = Workspace.open(home)
    assert update(workspace).errors == {}
    return home


@pytest.fixture
def workspace(_derived: Path, tmp_path: Path) -> Workspace:
    """A made-up archive of 40 episodes and 20 queries, up to date. Nothing is accepted yet."""
    return Workspace.open(shutil.copytree(_derived, tmp_path / "archive"))
