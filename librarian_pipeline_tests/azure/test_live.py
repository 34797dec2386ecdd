"""One run against the services themselves, for those who have an account: it costs money, and makes an index.

    AZURE_LIVE=1 AZURE_SEARCH_INDEX=librarian-live-test ... python -m pytest -n0 librarian_pipeline_tests/azure/test_live.py

The variables are those of the README. The index must not be there before, and is deleted in the end. The run shows that the
services take our requests; no figure of it is kept.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from librarian_pipeline.azure.account import Account, read_account
from librarian_pipeline.azure.clients import index_client
from librarian_pipeline.azure.eval_command import evaluate_on_azure
from librarian_pipeline.azure.searching import AZURE_MODES
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.workspace import Workspace

pytestmark = pytest.mark.skipif(
    os.environ.get("AZURE_LIVE") != "1",
    reason="talks to Azure, which needs an account and costs money: AZURE_LIVE=1 asks for it",
)
ENVIRONMENT = {name: value for name, value in os.environ.items() if name.startswith("AZURE_")}
WAIT_S = 60


@pytest.fixture
def account(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    found = read_account(Path.cwd())
    client = index_client(found, workspace.settings.azure)
    assert found.index not in list(client.list_index_names()), "name an index that isn't there yet"
    yield found
    client.delete_index(found.index)


def test_an_archive_is_indexed_searched_and_scored(workspace: Workspace, account: Account) -> None:
    toml = workspace.home / "librarian.toml"
    text = toml.read_text(encoding="utf-8").replace("max_wait_s = 1", f"max_wait_s = {WAIT_S}")
    toml.write_text(
        text.replace("dimensions = 32", "dimensions = 512").replace("timeout_s = 5", "timeout_s = 30"), encoding="utf-8"
    )
    workspace = Workspace.open(workspace.home)
    measured, first = evaluate_on_azure(workspace)
    assert first.uploaded == first.documents
    assert {row["mode"] for row in measured.scores.to_pylist()} == {*MODES, *AZURE_MODES}
    _, second = evaluate_on_azure(workspace)
    assert (second.uploaded, second.deleted) == (0, 0)
