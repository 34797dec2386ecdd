"""Lost labels, on a made-up archive: told whatever the last evaluation found."""

import json
import shutil
from pathlib import Path

import pytest

from librarian_pipeline.derivation.derive import derive
from librarian_pipeline.derivation.updating import bring_up_to_date, in_this_process
from librarian_pipeline.evaluation.gold_health import gold_health
from librarian_pipeline.evaluation.hygiene import LABELS
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.planning import Planner, Scope
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.silent import Silent
from librarian_pipeline_tests.synthetic import write_archive


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("made-up") / "archive"
    write_archive(home, 4, minutes=1)
    workspace = Workspace.open(home)
    bring_up_to_date(workspace, Planner(Scope()), Silent(), in_this_process(workspace, Silent()))
    return home


@pytest.fixture
def workspace(derived: Path, tmp_path: Path) -> Workspace:
    """A copy of an archive that is up to date, all of whose labels are found."""
    return Workspace.open(shutil.copytree(derived, tmp_path / "archive"))


@pytest.fixture
def judged(workspace: Workspace) -> str:
    """The episode that the first query is about."""
    queries = json.loads(workspace.archive.gold_path.read_text(encoding="utf-8"))
    return str(queries[0]["relevant"][0]["episode"])


def lost_labels(workspace: Workspace) -> tuple[str, ...]:
    [labels] = [check for check in gold_health(workspace.warehouse, workspace.settings.gold) if check.name == LABELS]
    return labels.offenders


def test_the_labels_of_an_archive_that_is_up_to_date_are_found(workspace):
    assert lost_labels(workspace) == ()


def test_a_label_of_a_newer_gold_set_than_the_evaluated_one_is_told(workspace):
    path = workspace.archive.gold_path
    queries = json.loads(path.read_text(encoding="utf-8"))
    queries[0]["relevant"] = [{"episode": "syn00001", "layer": "notes", "heading": "Nothing of the kind"}]
    path.write_text(json.dumps(queries), encoding="utf-8")
    derive(workspace, Item("gold_set"), Silent())
    assert [queries[0]["id"] in line for line in lost_labels(workspace)] == [True]


def test_a_label_of_passages_that_changed_since_the_evaluation_is_told(workspace, judged):
    (workspace.home / "transcripts" / f"{judged}.vtt").unlink()
    (workspace.home / "notes" / f"{judged}.md").write_text("It sings.\n")
    for asset in ("notes", "transcripts", "chunks"):
        derive(workspace, Item(asset, judged), Silent())
    assert lost_labels(workspace) != ()


def test_a_label_that_the_evaluation_lost_is_told_again_and_again(workspace, judged):
    (workspace.home / "transcripts" / f"{judged}.vtt").unlink()
    (workspace.home / "notes" / f"{judged}.md").write_text("It sings.\n")
    bring_up_to_date(workspace, Planner(Scope()), Silent(), in_this_process(workspace, Silent()))
    assert lost_labels(workspace) == lost_labels(workspace) != ()
