"""Dagster's web server on the sample, driven through the API that its pages use."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from librarian_pipeline_tests.ui_server import ASSETS, Ui, serving, small_archive

SENSORS = """
{ sensorsOrError(repositorySelector: {repositoryLocationName: "librarian", repositoryName: "__repository__"}) {
    ... on Sensors { results { name sensorState { status } } } } }
"""


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ui, Path]]:
    home = small_archive(tmp_path_factory.mktemp("ui"))
    log = home / "ui.log"
    with serving(home, log) as found:
        yield found, log


def test_the_graph_is_shown_with_the_episodes_as_partitions(ui: tuple[Ui, Path]) -> None:
    nodes = {node["assetKey"]["path"][0]: node["partitionKeys"] for node in ui[0].ask(ASSETS)["assetNodes"]}
    assert nodes["chunks"] == ["ep06", "ep07", "ep10"]
    assert nodes["eval_scores"] == []
    assert len(nodes) == 12


def test_one_asset_of_one_episode_materializes(ui: tuple[Ui, Path]) -> None:
    assert ui[0].materialize("notes", episode="ep06") == "SUCCESS"
    assert ui[0].workspace.warehouse.committed("notes", "ep06") is not None


def test_the_rest_of_the_graph_materializes(ui: tuple[Ui, Path]) -> None:
    for episode in ("ep06", "ep07", "ep10"):
        assert ui[0].materialize("audio", "notes", "transcripts", "chunks", "embeddings", episode=episode) == "SUCCESS"
    indexes = ("bm25_raw_index", "bm25_stem_index", "vector_index", "episodes", "gold_set", "eval_scores")
    assert ui[0].materialize(*indexes) == "SUCCESS"
    assert ui[0].workspace.warehouse.read("eval_scores").num_rows > 0


def test_the_sensors_are_running(ui: tuple[Ui, Path]) -> None:
    sensors = ui[0].ask(SENSORS)["sensorsOrError"]["results"]
    states = {sensor["name"]: sensor["sensorState"]["status"] for sensor in sensors}
    assert states == {"episodes": "RUNNING", "reeval_after_publication": "RUNNING"}


def test_the_log_holds_no_warning_of_ours(ui: tuple[Ui, Path]) -> None:
    """Dagster's own note that `dg dev` supersedes `dagster dev` is not ours to mend."""
    lines = [line for line in ui[1].read_text().splitlines() if re.search(r"warning|error|traceback", line, re.IGNORECASE)]
    assert [line for line in lines if "SupersessionWarning: Function `dev_command`" not in line] == []
