"""Dagster's web server on the sample, driven through the API that its pages use."""

import json
import os
import re
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import copy_sources, start_librarian

PATIENCE_S = 120

LAUNCH = """
mutation Launch($assets: [AssetKeyInput!]!, $tags: [ExecutionTag!]!) {
  launchPipelineExecution(executionParams: {
    selector: {
      repositoryLocationName: "librarian", repositoryName: "__repository__", jobName: "__ASSET_JOB", assetSelection: $assets
    }
    mode: "default"
    executionMetadata: {tags: $tags}
  }) { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } }
}
"""
ASSETS = "{ assetNodes { assetKey { path } partitionKeys } }"
STATUS = "query Run($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
SENSORS = """
{ sensorsOrError(repositorySelector: {repositoryLocationName: "librarian", repositoryName: "__repository__"}) {
    ... on Sensors { results { name sensorState { status } } } } }
"""


class Ui:
    def __init__(self, home: Path, port: int) -> None:
        self.workspace = Workspace.open(home)
        self._url = f"http://127.0.0.1:{port}/graphql"

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
        assert "errors" not in answer, answer
        return answer["data"]  # type: ignore[no-any-return]

    def materialize(self, *assets: str, episode: str | None = None) -> str:
        """Starts what the button "Materialize" starts, and returns how the run ended."""
        tags = [{"key": "dagster/partition", "value": episode}] if episode else []
        launched = self.ask(LAUNCH, assets=[{"path": [asset]} for asset in assets], tags=tags)["launchPipelineExecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            status: str = self.ask(STATUS, id=launched["run"]["runId"])["runOrError"]["status"]
            if status in ("SUCCESS", "FAILURE", "CANCELED"):
                return status
            time.sleep(0.5)
        raise AssertionError("the run did not end")


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ui, Path]]:
    home = copy_sources(tmp_path_factory.mktemp("ui"), only=("ep06", "ep07", "ep10"))
    (home / "librarian.toml").write_text('[embeddings]\nmodel = "char-ngram"\n')
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = home / "ui.log"
    process = start_librarian("ui", "--home", str(home), "--port", str(port), log=log)
    try:
        found = Ui(home, port)
        _wait_until_loaded(found, process, log)
        yield found, log
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=20)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _wait_until_loaded(ui: Ui, process: Any, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            if ui.ask(ASSETS)["assetNodes"]:
                return
        except OSError:
            pass  # not listening yet
        time.sleep(0.5)
    raise AssertionError(log.read_text())


def test_the_graph_is_shown_with_the_episodes_as_partitions(ui: tuple[Ui, Path]) -> None:
    nodes = {node["assetKey"]["path"][0]: node["partitionKeys"] for node in ui[0].ask(ASSETS)["assetNodes"]}
    assert nodes["chunks"] == ["ep06", "ep07", "ep10"]
    assert nodes["eval_scores"] == []
    assert len(nodes) == 11


def test_one_asset_of_one_episode_materializes(ui: tuple[Ui, Path]) -> None:
    assert ui[0].materialize("notes", episode="ep06") == "SUCCESS"
    assert ui[0].workspace.warehouse.committed("notes", "ep06") is not None


def test_the_rest_of_the_graph_materializes(ui: tuple[Ui, Path]) -> None:
    for episode in ("ep06", "ep07", "ep10"):
        assert ui[0].materialize("audio", "notes", "transcripts", "chunks", "embeddings", episode=episode) == "SUCCESS"
    indexes = ("bm25_raw_index", "bm25_stem_index", "vector_index", "episodes", "gold_set", "eval_scores")
    assert ui[0].materialize(*indexes) == "SUCCESS"
    assert ui[0].workspace.warehouse.read("eval_scores").num_rows > 0


def test_the_sensor_is_running(ui: tuple[Ui, Path]) -> None:
    [sensor] = ui[0].ask(SENSORS)["sensorsOrError"]["results"]
    assert (sensor["name"], sensor["sensorState"]["status"]) == ("episodes", "RUNNING")


def test_the_log_holds_no_warning_of_ours(ui: tuple[Ui, Path]) -> None:
    """Dagster's own note that `dg dev` supersedes `dagster dev` is not ours to mend."""
    lines = [line for line in ui[1].read_text().splitlines() if re.search(r"warning|error|traceback", line, re.IGNORECASE)]
    assert [line for line in lines if "SupersessionWarning: Function `dev_command`" not in line] == []
