import shutil
from pathlib import Path

import pytest

from librarian_pipeline.derivation.updating import bring_up_to_date, in_this_process
from librarian_pipeline.lineage.planning import Planner, Scope
from librarian_pipeline.storage import duckdb_mirror
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import copy_sources
from librarian_pipeline_tests.silent import Silent

EPISODES = ("ep06", "ep07", "ep10")


def update(workspace: Workspace) -> None:
    """Brings an archive up to date by what `librarian run` does, without Dagster."""
    outcome = bring_up_to_date(workspace, Planner(Scope()), Silent(), in_this_process(workspace, Silent()))
    assert outcome.errors == {}


@pytest.fixture(scope="session")
def _archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = copy_sources(tmp_path_factory.mktemp("compared") / "home", only=EPISODES)
    (home / "librarian.toml").write_text('[embeddings]\nmodel = "char-ngram"\n')
    workspace = Workspace.open(home)
    update(workspace)
    duckdb_mirror.refresh(workspace.warehouse)
    return home


@pytest.fixture
def workspace(_archive: Path, tmp_path: Path) -> Workspace:
    """An archive of three episodes with published transcripts, up to date, with the fallback for its embedding model."""
    home = tmp_path / "home"
    shutil.copytree(_archive, home)
    return Workspace.open(home)
