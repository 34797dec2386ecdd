"""What Dagster sees: both assets where an account is configured and the extra is there, and nothing at all otherwise."""

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from librarian_pipeline.azure import account
from librarian_pipeline.azure.gates import AZURE_GATES
from librarian_pipeline.definitions import definitions_for
from librarian_pipeline.lineage.graph import NODES
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.azure.fake_service import KEY, OPENAI_KEY, FakeService, failing

BOTH = {"azure_index", "azure_eval_scores"}
POISONED = """
import sys


class Poison:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("azure", "openai", "msal"):
            raise AssertionError(f"{name} was imported")


sys.meta_path.insert(0, Poison())
"""


def keys_of(definitions: dg.Definitions) -> set[str]:
    return {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}


def materialized(home: Path, *assets: str) -> tuple[dg.ExecuteInProcessResult, dg.DagsterInstance]:
    instance = dg.DagsterInstance.ephemeral()
    job = definitions_for(home).resolve_implicit_global_asset_job_def()
    selection = [dg.AssetKey(name) for name in assets]
    result = job.execute_in_process(instance=instance, asset_selection=selection, raise_on_error=False)
    return result, instance


def test_without_an_account_the_definitions_are_those_of_the_graph(workspace: Workspace) -> None:
    assert keys_of(definitions_for(workspace.home)) == set(NODES)


def test_without_the_extra_they_are_too(workspace: Workspace, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "LIBRARIES", ("no_such_library",))
    assert keys_of(definitions_for(workspace.home)) == set(NODES)


def test_with_both_there_are_two_more_in_a_group_of_their_own(workspace: Workspace, service: FakeService) -> None:
    definitions = definitions_for(workspace.home)
    assert keys_of(definitions) == {*NODES, *BOTH}
    groups = {spec.key.to_user_string(): spec.group_name for spec in definitions.resolve_all_asset_specs()}
    assert {name for name, group in groups.items() if group == "azure"} == BOTH


def test_no_check_of_theirs_blocks_anything(workspace: Workspace, service: FakeService) -> None:
    graph = definitions_for(workspace.home).resolve_asset_graph()
    theirs = [graph.get_check_spec(key) for key in graph.asset_check_keys if key.asset_key.to_user_string() in BOTH]
    assert {spec.name for spec in theirs} == set(AZURE_GATES)
    assert not any(spec.blocking for spec in theirs)


def test_the_default_definitions_load_nothing_of_the_extra(workspace: Workspace) -> None:
    code = f"""{POISONED}
from pathlib import Path
from librarian_pipeline.definitions import definitions_for
definitions_for(Path({str(workspace.home)!r})).resolve_asset_graph()
import librarian_pipeline.cli
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120)


def test_both_assets_materialize(workspace: Workspace, service: FakeService) -> None:
    result, _ = materialized(workspace.home, *sorted(BOTH))
    assert result.success
    (index,) = result.asset_materializations_for_node("azure_index")
    assert index.metadata["uploaded"].value == len(service.documents)
    assert "at most about" in str(index.metadata["estimate"].value)
    (scores,) = result.asset_materializations_for_node("azure_eval_scores")
    assert "azure_hybrid" in str(scores.metadata["score table"].value)
    assert {evaluation.check_name for evaluation in result.get_asset_check_evaluations()} == set(AZURE_GATES)


def test_a_failure_is_told_without_a_key(workspace: Workspace, service: FakeService) -> None:
    service.faults["index"].append(failing(403))
    result, instance = materialized(workspace.home, "azure_index")
    assert not result.success
    (failure,) = result.filter_events(lambda event: event.is_step_failure)
    assert "refuses the login (403)" in str(failure.step_failure_data.user_failure_data)
    logged = "".join(str(record) for record in instance.all_logs(result.run_id))
    assert "azure_index" in logged
    assert KEY not in logged
    assert OPENAI_KEY not in logged
