"""Dagster's web UI as `librarian ui` starts it, for the tests of its API and of its pages."""

import json
import os
import shutil
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import copy_sources, run_librarian, start_librarian
from librarian_pipeline_tests.speech.sounds import SPOKEN

PATIENCE_S = 120
SMALL = ("ep06", "ep07", "ep10")
SPOKEN_EPISODE = "ep20"

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


def small_archive(home: Path) -> Path:
    """Three episodes of the sample with published transcripts, and vectors that need no weights: derived in seconds."""
    copy_sources(home, only=SMALL)
    (home / "librarian.toml").write_text('[embeddings]\nmodel = "char-ngram"\n')
    return home


def derived_archive(home: Path) -> Path:
    """The small archive and `SPOKEN_EPISODE`, three seconds of audio that the smallest model hears, up to date.

    Its gold set asks only for what its episodes hold, so that all is well.
    """
    small_archive(home)
    shutil.copy2(SPOKEN, home / "audio" / f"{SPOKEN_EPISODE}.opus")
    with (home / "librarian.toml").open("a") as settings:
        settings.write('[whisper]\nmodel = "tiny.en"\n')
    gold = home / "gold" / "gold_set.json"
    kept = [query for query in json.loads(gold.read_text()) if {span["episode"] for span in query["relevant"]} <= set(SMALL)]
    gold.write_text(json.dumps(kept))
    result = run_librarian("run", "--home", str(home))
    assert result.returncode == 0, result.stderr
    return home


class Ui:
    def __init__(self, home: Path, port: int) -> None:
        self.workspace = Workspace.open(home)
        self.address = f"http://127.0.0.1:{port}"

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.address}/graphql", body, {"Content-Type": "application/json"})
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


@contextmanager
def serving(home: Path, log: Path) -> Iterator[Ui]:
    """The UI of the archive at `home`, from when it knows the assets until the end of the block. It prints to `log`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = start_librarian("ui", "--home", str(home), "--port", str(port), log=log)
    try:
        ui = Ui(home, port)
        _wait_until_loaded(ui, process, log)
        yield ui
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
