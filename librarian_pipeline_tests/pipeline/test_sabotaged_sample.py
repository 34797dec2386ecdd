"""Code that changed without a word is caught by a gate, and what is served stays what it was: on the sample, with e5."""

from collections.abc import Callable

import pytest

from librarian_pipeline.accept_command import accept_measured
from librarian_pipeline.derivation.derive import derive
from librarian_pipeline.evaluation.measure import stored_gates
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.planning import Scope
from librarian_pipeline.retrieval import modes
from librarian_pipeline.retrieval.embedders.packaged_e5 import PackagedE5
from librarian_pipeline.run_command import run_archive
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.derivation.test_gated_evaluation import files_below
from librarian_pipeline_tests.silent import Silent


def swapped_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries are taken for passages."""
    monkeypatch.setattr(PackagedE5, "embed_query", lambda model, text: model.embed_passages([text])[0])


def wrong_fusion_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    fuse = modes.reciprocal_rank_fusion
    monkeypatch.setattr(modes, "reciprocal_rank_fusion", lambda rankings, c: fuse(rankings, 1))


@pytest.mark.parametrize("sabotage", [swapped_prompts, wrong_fusion_constant])
def test_what_changes_unseen_fails_a_gate_and_publishes_nothing(
    sabotage: Callable[[pytest.MonkeyPatch], None], sample_copy: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept_measured(sample_copy, release=False)
    assert run_archive(sample_copy, Scope()) == 0
    published = files_below(sample_copy.archive.published_dir)
    sabotage(monkeypatch)
    derive(sample_copy, Item("eval_scores"), Silent())
    failed = {row["gate"]: row for row in stored_gates(sample_copy.warehouse) if not row["passed"]}
    assert "gave other ranks" in failed["reproducibility"]["message"]
    assert failed["reproducibility"]["details"]
    assert run_archive(Workspace.open(sample_copy.home), Scope()) == 1
    assert files_below(sample_copy.archive.published_dir) == published
