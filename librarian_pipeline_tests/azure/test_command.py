"""`librarian eval --azure`, as people call it."""

import json
import sys
from pathlib import Path

import pytest

from librarian_pipeline.azure import account
from librarian_pipeline.azure.searching import AZURE_MODES
from librarian_pipeline.cli import main
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.azure.fake_service import KEY, OPENAI_KEY, FakeService, failing

Captured = pytest.CaptureFixture[str]


def call(monkeypatch: pytest.MonkeyPatch, home: Path, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["librarian", "eval", "--azure", "--home", str(home), *arguments])
    with pytest.raises(SystemExit) as exited:
        main()
    assert isinstance(exited.value.code, int)
    return exited.value.code


def files_of(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file()]


def test_it_prints_the_estimate_then_one_table_of_both_stacks(
    workspace: Workspace, service: FakeService, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert call(monkeypatch, workspace.home) == 0
    printed = capsys.readouterr()
    assert printed.err.index("at most about") < printed.err.index("documents uploaded")
    table = printed.out[printed.out.index("Retrieval mode") : printed.out.index("\ngate ")]
    assert [line.split()[0] for line in table.splitlines()[1:] if line.strip()] == [*MODES, *AZURE_MODES]


def test_json_has_the_figures_of_every_mode(
    workspace: Workspace, service: FakeService, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert call(monkeypatch, workspace.home, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["mode"] for row in found["scores"]} == {*MODES, *AZURE_MODES}
    assert found["index"]["uploaded"] == found["index"]["documents"] > 0


def test_the_figures_of_each_language_have_the_modes_of_both_stacks(
    workspace: Workspace, service: FakeService, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert call(monkeypatch, workspace.home, "--by", "language") == 0
    starts = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert [mode for _, mode in (start for start in starts if start[:1] == ["en"])] == [*MODES, *AZURE_MODES]


@pytest.mark.parametrize("arguments", [[], ["--json"], ["--debug"]])
@pytest.mark.parametrize("fault", [None, 403])
def test_no_key_is_in_what_it_prints_or_writes(
    workspace: Workspace,
    service: FakeService,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    arguments: list[str],
    fault: int | None,
) -> None:
    if fault is not None:
        service.faults["index"].append(failing(fault))
    assert call(monkeypatch, workspace.home, *arguments) == (0 if fault is None else 1)
    printed = capsys.readouterr()
    for key in (KEY, OPENAI_KEY):
        assert key not in printed.out + printed.err
        assert not [path for path in files_of(workspace.home) if key.encode() in path.read_bytes()]


def test_without_an_account_it_says_what_is_missing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert call(monkeypatch, workspace.home) == 2
    assert "AZURE_SEARCH_ENDPOINT" in capsys.readouterr().err


def test_without_the_extra_it_says_how_to_get_it(
    workspace: Workspace, service: FakeService, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(account, "LIBRARIES", ("azure.search.documents", "azure.nowhere", "no_such_library"))
    assert call(monkeypatch, workspace.home) == 2
    told = capsys.readouterr().err
    assert "azure.nowhere, no_such_library" in told
    assert "pip install" in told
    assert service.requests == []


@pytest.mark.parametrize("option", [["--trec", "out"], ["--accept", "--release"]])
def test_options_of_the_local_evaluation_alone_are_refused(
    workspace: Workspace, service: FakeService, monkeypatch: pytest.MonkeyPatch, option: list[str]
) -> None:
    assert call(monkeypatch, workspace.home, *option) == 2
    assert service.requests == []
