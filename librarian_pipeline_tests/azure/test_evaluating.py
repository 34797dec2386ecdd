import json

import pyarrow as pa
import pytest

from librarian_pipeline.azure.eval_command import evaluate_on_azure
from librarian_pipeline.azure.evaluating import baseline_path, measure_azure
from librarian_pipeline.azure.gates import AZURE_GATES
from librarian_pipeline.azure.searching import AZURE_MODES
from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.metrics import HEADLINE
from librarian_pipeline.retrieval.indexing import load_searcher
from librarian_pipeline.retrieval.modes import Hit, Searcher
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.azure.fake_service import FakeService


class Renamed:
    """The local modes under the names of those on Azure: then they have to come out alike."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    def search(self, query: str, mode: str | None = None, k: int = 5) -> list[Hit]:
        local = {"azure_bm25": "bm25_raw", "azure_vector": "dense", "azure_hybrid": "hybrid"}
        assert mode is not None
        return self._searcher.search(query, local[mode], k)


def figures(scores: pa.Table, mode: str) -> dict[tuple[str, str], tuple[float, float, float, int]]:
    return {
        (row["metric"], row["slice"]): (row["value"], row["ci_low"], row["ci_high"], row["n_queries"])
        for row in scores.to_pylist()
        if row["mode"] == mode
    }


@pytest.mark.parametrize(
    ("azure", "local"), [("azure_bm25", "bm25_raw"), ("azure_vector", "dense"), ("azure_hybrid", "hybrid")]
)
def test_equal_rankings_have_equal_figures_on_both_stacks(workspace: Workspace, azure: str, local: str) -> None:
    searcher = Renamed(load_searcher(workspace.warehouse, workspace.settings))
    measured = measure_azure(workspace, searcher, {})
    assert figures(measured.scores, azure) == figures(measured.scores, local)
    assert {metric for metric, _ in figures(measured.scores, azure)} > set(HEADLINE)


def test_the_gates_look_at_all_modes_and_say_how_to_accept(workspace: Workspace, service: FakeService) -> None:
    measured, _ = evaluate_on_azure(workspace)
    gates = {gate["gate"]: gate for gate in measured.gates.to_pylist()}
    assert set(measured.measurement.modes) > set(AZURE_MODES)
    assert set(gates) == set(AZURE_GATES)
    assert any("`librarian eval --azure --accept`" in gate["message"] for gate in gates.values())


def test_what_is_accepted_is_what_the_next_is_held_against(workspace: Workspace, service: FakeService) -> None:
    evaluate_on_azure(workspace, accepting=True)
    accepted = json.loads(baseline_path(workspace).read_text(encoding="utf-8"))
    assert accepted["baseline"]["mode"] == "azure_hybrid"
    assert not workspace.archive.baseline_path.exists()
    measured, synchronised = evaluate_on_azure(workspace)
    assert synchronised.uploaded == 0
    gates = measured.gates.to_pylist()
    assert not any("no baseline is accepted" in gate["message"] for gate in gates)
    assert [gate["gate"] for gate in gates if not gate["passed"]] == []


def test_a_floor_can_be_set_for_a_mode_on_azure(workspace: Workspace, service: FakeService) -> None:
    toml = workspace.home / "librarian.toml"
    toml.write_text(toml.read_text(encoding="utf-8") + "\n[gates.floors.azure_bm25]\nMRR = 1.01\n", encoding="utf-8")
    measured, _ = evaluate_on_azure(Workspace.open(workspace.home))
    failed = [gate["message"] for gate in measured.gates.to_pylist() if not gate["passed"]]
    assert any("azure_bm25 MRR" in message for message in failed)


def test_without_a_measurement_there_is_nothing_to_stand_beside(workspace: Workspace) -> None:
    workspace.warehouse.path("eval_scores").unlink()
    with pytest.raises(UsageError, match="nothing has been measured yet"):
        measure_azure(workspace, Renamed(load_searcher(workspace.warehouse, workspace.settings)), {})
