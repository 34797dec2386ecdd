"""Index, upload, query, score, table: with the real SDKs, over the REST API, against a server on this machine."""

import pytest

from librarian_pipeline.azure.eval_command import evaluate_on_azure
from librarian_pipeline.azure.searching import AZURE_MODES
from librarian_pipeline.azure.stack import AzureStack
from librarian_pipeline.lineage.outdated import verdicts
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.azure.fake_service import FakeService


def silent(_: object) -> None:
    return None


def test_one_table_holds_the_modes_of_both_stacks(workspace: Workspace, service: FakeService) -> None:
    measured, _ = evaluate_on_azure(workspace)
    named = [row[0].removesuffix(" (default)") for row in measured.table.rows]
    assert named == [*MODES, *AZURE_MODES]
    assert len(named) >= 7
    assert all(len(row) == len(measured.table.header) for row in measured.table.rows)


def test_the_local_figures_in_it_are_those_that_were_measured(workspace: Workspace, service: FakeService) -> None:
    measured, _ = evaluate_on_azure(workspace)
    stored = workspace.warehouse.read("eval_scores").to_pylist()
    assert [row for row in measured.scores.to_pylist() if row["mode"] in MODES] == stored


@pytest.mark.parametrize("mode", AZURE_MODES)
def test_every_mode_finds_the_passage_with_the_words_of_the_query(stack: AzureStack, mode: str) -> None:
    stack.update(silent)
    first = stack.searcher().search("bees dance on the comb", mode, 3)[0]
    assert "Bees dance" in first.passage.text
    assert first.rank == 1


def test_what_was_measured_is_kept_in_the_warehouse(workspace: Workspace, service: FakeService) -> None:
    measured, _ = evaluate_on_azure(workspace)
    assert workspace.warehouse.committed("azure_eval_scores") is not None
    assert workspace.warehouse.read("azure_eval_scores").num_rows == measured.scores.num_rows
    assert set(workspace.warehouse.read("azure_rankings")["mode"].to_pylist()) == {*MODES, *AZURE_MODES}


def test_nothing_of_it_touches_what_decides_on_publication(workspace: Workspace, service: FakeService) -> None:
    before = verdicts(workspace.observe())
    evaluate_on_azure(workspace)
    assert verdicts(Workspace.open(workspace.home).observe()) == before
