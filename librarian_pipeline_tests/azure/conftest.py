import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from librarian_pipeline.azure import clients, stack, synchronising
from librarian_pipeline.azure.account import KEYS, REQUIRED
from librarian_pipeline.azure.stack import AzureStack
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.azure.fake_service import FakeService, running
from librarian_pipeline_tests.derivation.conftest import update
from librarian_pipeline_tests.pipeline.small_archive import SENTENCES, SETTINGS, add_notes, add_published, write_gold

AZURE_SETTINGS = """
[azure]
owner = "the-tests"
dimensions = 32
embed_batch = 3
upload_batch = 3
timeout_s = 5
retries = 2
max_wait_s = 1
"""
CZECH = (
    "Mlynář počítal pytle, než přišel déšť, a potom zavřel vrata na petlici.",
    "Sova slyší myš pod sněhem i v noci, kdy není vidět ani na krok.",
    "Zvon se odléval v jámě za kostelem a celá vesnice se přišla podívat.",
)


@pytest.fixture(autouse=True)
def _no_account_of_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ.keys() & {*REQUIRED, *KEYS}:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def _derived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("azure") / "archive"
    home.mkdir()
    (home / "librarian.toml").write_text(SETTINGS + AZURE_SETTINGS, encoding="utf-8")
    add_published(home, "one", SENTENCES[:6])
    add_notes(home, "one", "A mill, and the salt road behind it.")
    add_published(home, "two", SENTENCES[2:])
    add_published(home, "tri", CZECH)
    write_gold(home, {"q1": ("who counted the sacks", "one"), "q2": ("what hears a mouse under the snow", "two")})
    workspace = Workspace.open(home)
    assert update(workspace).errors == {}
    return home


@pytest.fixture
def workspace(_derived: Path, tmp_path: Path) -> Workspace:
    """A small archive in two languages, up to date."""
    return Workspace.open(shutil.copytree(_derived, tmp_path / "archive"))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeService]:
    """Running, and configured in the environment."""
    monkeypatch.setattr(synchronising, "PAUSE_S", 0.01)
    monkeypatch.setattr(clients, "BACKOFF_S", 0.01)
    monkeypatch.setattr(stack, "LOOK_AGAIN_S", 0.1)
    with running() as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        yield fake


@pytest.fixture(name="stack")
def opened(workspace: Workspace, service: FakeService) -> AzureStack:
    """The archive on the fake service; nothing is sent yet."""
    return AzureStack(workspace)
