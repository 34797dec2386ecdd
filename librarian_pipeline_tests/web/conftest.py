import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from librarian_pipeline.serving.library import Library
from librarian_pipeline.web.app import web_app
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.web.archive import web_archive

PORT = 8766
ADDRESS = f"http://127.0.0.1:{PORT}"


def client_of(home: Path) -> TestClient:
    return TestClient(web_app(Library(Workspace.open(home)), PORT), base_url=ADDRESS)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return web_archive(tmp_path_factory.mktemp("web") / "archive")


@pytest.fixture(scope="session")
def client(home: Path) -> TestClient:
    return client_of(home)


@pytest.fixture
def own_home(home: Path, tmp_path: Path) -> Path:
    """A copy. For tests that change things."""
    return shutil.copytree(home, tmp_path / "archive")
