"""`librarian eval --accept`: what it writes, what it says, and when it refuses; and what `run` says of gates."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from librarian_pipeline import cli
from librarian_pipeline.accept_command import accept_measured
from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.baseline import read_baseline
from librarian_pipeline.lineage.planning import Scope
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.run_command import run_archive
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.derivation.conftest import update
from librarian_pipeline_tests.synthetic import write_archive


@pytest.fixture(scope="module")
def _derived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("accepting") / "archive"
    write_archive(home, 20, minutes=1)
    assert update(Workspace.open(home)).errors == {}
    return home


@pytest.fixture
def workspace(_derived: Path, tmp_path: Path) -> Workspace:
    """A made-up archive of 20 episodes and 10 queries, up to date. Nothing is accepted yet."""
    return Workspace.open(shutil.copytree(_derived, tmp_path / "archive"))


def librarian(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["librarian", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def floors(workspace: Workspace, floor: float) -> Workspace:
    path = workspace.home / "librarian.toml"
    path.write_text(path.read_text() + f"[gates.floors]\nhybrid = {{ MRR = {floor} }}\n")
    return Workspace.open(workspace.home)


def test_accepting_writes_the_measurement_and_says_what_to_do_with_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert librarian(monkeypatch, "eval", "--accept", "--home", str(workspace.home)) == 0
    said = capsys.readouterr().out
    assert f"accepted: 10 queries in {len(MODES)} modes; the default mode is hybrid_cc" in said
    assert "review it like any other change" in said
    found = read_baseline(workspace.archive.baseline_path)
    assert found is not None
    assert len(found.baseline.measurement.queries) == 10
    assert found.release is None


def test_accepting_again_says_what_changed_since(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    accept_measured(workspace, release=False)
    path = workspace.home / "librarian.toml"
    path.write_text(path.read_text() + "[fusion]\ndepth = 1\n[bm25]\nepsilon = 0\n")
    changed = Workspace.open(workspace.home)
    update(changed)
    capsys.readouterr()
    accept_measured(changed, release=True)
    said = capsys.readouterr().out
    assert "over 10 queries:" in said
    assert "hybrid MRR@10" in said
    found = read_baseline(workspace.archive.baseline_path)
    assert found is not None
    assert found.release == found.baseline


def test_accepting_twice_needs_no_run_in_between(workspace: Workspace) -> None:
    accept_measured(workspace, release=False)
    accept_measured(workspace, release=True)


@pytest.mark.parametrize("change", ["settings", "gold set", "episode"])
def test_figures_that_are_out_of_date_cant_be_accepted(change: str, workspace: Workspace) -> None:
    if change == "settings":
        path = workspace.home / "librarian.toml"
        path.write_text(path.read_text() + "[fusion]\nc = 10\n")
    elif change == "gold set":
        workspace.archive.gold_path.write_text("[]")
    else:
        notes = sorted(workspace.archive.notes_dir.iterdir())[0]
        notes.write_text(notes.read_text() + "\nMore.\n")
    with pytest.raises(UsageError, match=r"the figures are not those of the archive as it is.*librarian run"):
        accept_measured(Workspace.open(workspace.home), release=False)
    assert not workspace.archive.baseline_path.exists()


def test_before_the_first_run_there_is_nothing_to_accept(tmp_path: Path) -> None:
    write_archive(tmp_path / "new", 2, minutes=1)
    with pytest.raises(UsageError, match="nothing has been measured yet"):
        accept_measured(Workspace.open(tmp_path / "new"), release=False)


def test_a_release_is_one_that_is_accepted(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert librarian(monkeypatch, "eval", "--release", "--home", str(workspace.home)) == 2


def test_a_run_that_fails_a_gate_says_so_at_its_end_and_exits_1(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_archive(workspace, Scope()) == 0
    assert "no baseline is accepted yet" in capsys.readouterr().err
    low = floors(workspace, 1.01)
    assert run_archive(low, Scope()) == 1
    said = capsys.readouterr().err
    assert "gate floors failed: below the floor: hybrid MRR" in said
    assert run_archive(low, Scope()) == 1  # and again, though nothing is left to derive
    assert "gate floors failed" in capsys.readouterr().err


def test_eval_shows_every_gate_and_exits_1_if_one_failed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--home", str(workspace.home)]
    assert librarian(monkeypatch, "eval", *home) == 0
    update(floors(workspace, 1.01))
    capsys.readouterr()
    assert librarian(monkeypatch, "eval", *home) == 1
    assert "floors            FAILED" in capsys.readouterr().out
    assert librarian(monkeypatch, "eval", "--json", *home) == 1
    gates = {gate["gate"]: gate["passed"] for gate in json.loads(capsys.readouterr().out)["gates"]}
    assert len(gates) == 12
    assert not gates["floors"]
