"""Of a transcript that fails a blocking check nothing is derived; what was derived before stays, and the others go on."""

from pathlib import Path

import pytest

from librarian_pipeline.checks.blocking import blocking_reason
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.outdated import State, verdicts
from librarian_pipeline.lineage.planning import Scope
from librarian_pipeline.run_command import run_archive
from librarian_pipeline.settings import CheckSettings
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import copy_sources


@pytest.mark.parametrize(
    ("measures", "blocks"),
    [
        ({}, False),
        ({"times": 0, "hallucination_rate": 0.02}, False),
        ({"times": 1}, True),
        ({"hallucination_rate": 0.021}, True),
    ],
)
def test_wrong_times_and_too_much_invention_block(measures: dict[str, float], blocks: bool) -> None:
    assert (blocking_reason(measures, CheckSettings()) is not None) == blocks


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = copy_sources(tmp_path / "home", only=("ep07", "ep10"))
    (home / "gold" / "gold_set.json").write_text("[]")
    (home / "librarian.toml").write_text('[embeddings]\nmodel = "char-ngram"\n')
    return home


def block(workspace: Workspace, episode: str, share: float) -> None:
    """Writes the episode's transcript again, with a measure as of one that is invented in part, and one row less."""
    record = workspace.warehouse.committed("transcripts", episode)
    assert record is not None
    workspace.warehouse.write(
        "transcripts",
        episode,
        workspace.warehouse.read("transcripts", episode).slice(1),
        recipe=record.recipe,
        inputs=record.inputs,
        beside={"speech_spans": workspace.warehouse.read("speech_spans", episode)},
        measures={"hallucination_rate": share},
    )


def test_nothing_is_derived_from_a_blocked_transcript_and_what_was_derived_stays(home: Path) -> None:
    workspace = Workspace.open(home)
    assert run_archive(workspace, Scope()) == 0
    before = workspace.warehouse.read("chunks", "ep07")
    block(workspace, "ep07", share=0.05)
    found = verdicts(workspace.observe())
    assert found[Item("chunks", "ep07")].state is State.BLOCKED
    assert "transcripts[ep07]: 5.0% of the speech is invented" in found[Item("chunks", "ep07")].reasons[0]
    assert found[Item("chunks", "ep10")].state is State.FRESH
    run_archive(workspace, Scope())
    assert workspace.warehouse.read("chunks", "ep07").equals(before)


def test_an_episode_that_is_blocked_from_the_start_does_not_hold_back_the_others(home: Path) -> None:
    workspace = Workspace.open(home)
    run_archive(workspace, Scope())
    block(workspace, "ep07", share=0.05)
    workspace.warehouse.drop("chunks", "ep07")
    workspace.warehouse.drop("embeddings", "ep07")
    states = {item: verdict.state for item, verdict in verdicts(workspace.observe()).items()}
    assert {states[Item(asset, "ep07")] for asset in ("chunks", "embeddings")} == {State.BLOCKED}
    run_archive(workspace, Scope())
    found = verdicts(workspace.observe())
    assert all(verdict.settled for verdict in found.values())
    assert set(workspace.warehouse.read("vector_index").column("chunk_id").to_pylist())


def test_another_threshold_lifts_the_block_without_transcribing_again(home: Path) -> None:
    workspace = Workspace.open(home)
    run_archive(workspace, Scope())
    block(workspace, "ep07", share=0.05)
    written = workspace.warehouse.path("transcripts", "ep07").stat().st_mtime_ns
    toml = home / "librarian.toml"
    toml.write_text(toml.read_text() + "[checks]\nfail_hallucination_share = 0.1\n")
    lifted = Workspace.open(home)
    assert verdicts(lifted.observe())[Item("chunks", "ep07")].state is State.STALE
    run_archive(lifted, Scope())
    assert verdicts(lifted.observe())[Item("chunks", "ep07")].state is State.FRESH
    assert lifted.warehouse.path("transcripts", "ep07").stat().st_mtime_ns == written
