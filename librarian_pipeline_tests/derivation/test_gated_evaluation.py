"""The gates where they are at work: what is searched again, what is kept of a failure, and what each sabotage comes to."""

import json
import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from librarian_pipeline.accept_command import accept_measured
from librarian_pipeline.checks.blocking import blocking_reason
from librarian_pipeline.derivation.derive import derive
from librarian_pipeline.evaluation.measure import stored_gates, stored_score_table
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.outdated import State, verdict_of
from librarian_pipeline.lineage.planning import Scope
from librarian_pipeline.retrieval import modes
from librarian_pipeline.run_command import run_archive
from librarian_pipeline.settings import CheckSettings
from librarian_pipeline.storage import atomic
from librarian_pipeline.storage.provenance import PARQUET_KEY
from librarian_pipeline.text.lemmas import Normalizer
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.derivation.conftest import update
from librarian_pipeline_tests.silent import Silent

EVAL = Item("eval_scores")


def measured_by(workspace: Workspace) -> list[Item]:
    """What an update derives, publication aside."""
    return [item for item in update(workspace).derived if item != Item("published_index")]


@pytest.fixture
def accepted(workspace: Workspace) -> Workspace:
    """The archive with its measurement accepted, and judged by that."""
    accept_measured(workspace, release=False)
    assert measured_by(workspace) == [EVAL]
    return workspace


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that are searched from here on, once for each mode."""
    asked: list[str] = []
    search = modes.Searcher.search

    def counted(self: modes.Searcher, query: str, *rest: Any) -> Any:
        asked.append(query)
        return search(self, query, *rest)

    monkeypatch.setattr(modes.Searcher, "search", counted)
    return asked


def gates(workspace: Workspace) -> dict[str, dict[str, Any]]:
    return {row["gate"]: row for row in stored_gates(workspace.warehouse)}


def failed(workspace: Workspace) -> set[str]:
    return {name for name, row in gates(workspace).items() if not row["passed"] and row["severity"] == "error"}


def set_to(workspace: Workspace, toml: str) -> Workspace:
    settings = workspace.home / "librarian.toml"
    settings.write_text(settings.read_text() + toml)
    return Workspace.open(workspace.home)


# what is searched again


@pytest.mark.parametrize(
    "toml",
    ["[gates]\nalpha = 0.01\n", "[gates.floors]\ndense = { MRR = 0.1 }\n", "[evaluation]\nbootstrap_resamples = 100\n"],
)
def test_thresholds_and_intervals_are_looked_at_anew_without_a_search(
    toml: str, workspace: Workspace, searches: list[str]
) -> None:
    before = workspace.warehouse.read("rankings")
    changed = set_to(workspace, toml)
    assert measured_by(changed) == [EVAL]
    assert searches == []
    assert changed.warehouse.read("rankings").equals(before)


def test_accepting_costs_no_search(workspace: Workspace, searches: list[str]) -> None:
    accept_measured(workspace, release=True)
    assert measured_by(workspace) == [EVAL]
    assert searches == []
    assert gates(workspace)["primary_metric"]["message"].endswith("p = 1.000)")


@pytest.mark.parametrize("toml", ["[fusion]\nc = 10\n", '[normalizer]\nname = "none"\n', "[bm25]\nk1 = 0.1\n"])
def test_other_settings_are_measured_anew(toml: str, accepted: Workspace, searches: list[str]) -> None:
    changed = set_to(accepted, toml)
    assert EVAL in update(changed).derived
    assert searches


def test_another_gold_set_is_measured_anew(accepted: Workspace, searches: list[str]) -> None:
    path = accepted.archive.gold_path
    path.write_text(path.read_text().replace('"split": "dev"', '"split": "test"'))
    assert EVAL in update(accepted).derived
    assert searches


def test_a_measurement_that_is_asked_for_though_nothing_changed_searches_again(
    accepted: Workspace, searches: list[str]
) -> None:
    derive(accepted, EVAL, Silent())
    assert searches
    assert gates(accepted)["reproducibility"]["message"] == "the ranks of the baseline came out again"


# nothing changed


def test_runs_without_a_change_fail_nothing(accepted: Workspace) -> None:
    for _ in range(3):
        derive(accepted, EVAL, Silent(), reuse=False)
        assert failed(accepted) == set()
    assert update(accepted).derived == []


# a failure, and what is kept of it


def test_a_gate_that_fails_is_kept_with_the_scores_and_blocks_what_comes_after(accepted: Workspace) -> None:
    changed = set_to(accepted, "[gates.floors]\ndense = { MRR = 0.999 }\n")
    update(changed)
    record = changed.warehouse.committed("eval_scores")
    assert record is not None
    assert dict(record.measures) == {"gate:floors": 1.0}
    assert blocking_reason(record.measures, CheckSettings()) == "it failed a gate: floors"
    world = changed.observe()
    assert "floors" in world.blocks[EVAL]
    assert verdict_of(EVAL, world).state is State.FRESH  # measured it is


def test_a_gate_that_passes_again_lifts_the_block(accepted: Workspace) -> None:
    update(set_to(accepted, "[gates.floors]\ndense = { MRR = 0.999 }\n"))
    settings = accepted.home / "librarian.toml"
    settings.write_text(settings.read_text().replace("0.999", "0.001"))
    lifted = Workspace.open(accepted.home)
    update(lifted)
    assert EVAL not in lifted.observe().blocks


def test_a_baseline_that_cant_be_read_is_a_failure_of_the_scores_and_says_so(accepted: Workspace) -> None:
    accepted.archive.baseline_path.write_text("{")
    update(accepted)
    failure = accepted.warehouse.failure("eval_scores")
    assert failure is not None
    assert "baseline.json is not valid JSON" in failure.line
    assert "put back the version that was committed" in failure.line


def test_a_readme_is_held_against_the_figures_and_looked_at_again_when_it_changes(workspace: Workspace) -> None:
    changed = set_to(workspace, '[gates]\nreadme = "README.md"\n')
    update(changed)
    assert "can't be read" in gates(changed)["readme_table"]["message"]
    readme = changed.home / "README.md"
    readme.write_text(stored_score_table(changed.warehouse).to_markdown())
    assert measured_by(changed) == [EVAL]
    assert failed(changed) == set()
    readme.write_text(readme.read_text().replace("| hybrid | ", "| hybrid | 9"))
    assert measured_by(changed) == [EVAL]
    assert failed(changed) == {"readme_table"}


# sabotage: what each comes to


def rewrite(workspace: Workspace, asset: str, partition: str | None, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replaces an output by a changed one, as a broken version of what derives it would."""
    warehouse = workspace.warehouse
    record = warehouse.committed(asset, partition)
    assert record is not None
    beside = {name: warehouse.read(name, partition).replace_schema_metadata() for name in record.beside}
    table = change(warehouse.read(asset, partition).replace_schema_metadata())
    warehouse.write(asset, partition, table, recipe=record.recipe, inputs=record.inputs, beside=beside)


def junk_stemmer(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Normalizer, "terms", lambda self, text, language: [word[:1] for word in text.split()])
    derive(workspace, Item("bm25_stem_index"), Silent())


def shuffled_vectors(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def shuffle(table: pa.Table) -> pa.Table:
        order = list(range(table.num_rows))
        random.Random(1).shuffle(order)
        return table.set_column(1, table.schema.field(1), table.column(1).take(order))

    rewrite(workspace, "vector_index", None, shuffle)


def dropped_passages(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tenth."""
    passage = count()
    for episode in workspace.archive.discover().episodes:
        rewrite(workspace, "chunks", episode, lambda table: table.filter([next(passage) % 10 != 1 for _ in table[0]]))


def truncated_index(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in ("bm25_raw_index", "bm25_stem_index"):
        rewrite(workspace, index, None, lambda table: table.slice(0, table.num_rows // 3))


def fusion_upside_down(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    fuse = modes.reciprocal_rank_fusion
    monkeypatch.setattr(modes, "reciprocal_rank_fusion", lambda rankings, c: fuse(rankings, c)[::-1])
    derive(workspace, EVAL, Silent())


SABOTAGES = {
    junk_stemmer: ({"other_metrics"}, "bm25_stem MRR@10"),
    shuffled_vectors: ({"other_metrics"}, "dense MRR@10"),
    dropped_passages: ({"labels"}, "no longer resolve"),
    truncated_index: ({"other_metrics"}, "bm25_raw"),
    fusion_upside_down: ({"reproducibility", "other_metrics", "fusion"}, "gave other ranks"),
}


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.__name__)
def test_sabotage_fails_a_gate_with_the_right_words(
    sabotage: Callable[[Workspace, pytest.MonkeyPatch], None], accepted: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = accepted.archive.baseline_path.read_bytes()
    published = files_below(accepted.archive.published_dir)
    assert published
    expected, said = SABOTAGES[sabotage]
    sabotage(accepted, monkeypatch)
    now = Workspace.open(accepted.home)
    update(now)
    assert expected <= failed(now), gates(now)
    first = next(iter(sorted(expected, key=list(gates(now)).index)))
    assert said in gates(now)[first]["message"]
    assert gates(now)[first]["details"]
    assert now.observe().blocks[EVAL]
    assert accepted.archive.baseline_path.read_bytes() == before
    assert run_archive(now, Scope()) == 1
    assert files_below(accepted.archive.published_dir) == published


def files_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock")}


def test_other_settings_that_find_the_same_queries_pass(accepted: Workspace) -> None:
    """Made-up queries are of rare words: how often a passage holds them makes no difference."""
    changed = set_to(accepted, "[bm25]\nk1 = 0\n")
    assert EVAL in update(changed).derived
    assert failed(changed) == set()


def test_a_stored_table_that_was_changed_behind_its_record_is_told(accepted: Workspace) -> None:
    """As by a flipped bit: the record inside the file is the old one."""
    path = accepted.warehouse.path("bm25_stem_index")
    table = accepted.warehouse.read("bm25_stem_index")
    record = table.schema.metadata[PARQUET_KEY]
    flipped = table.set_column(
        2, table.schema.field(2), pa.array([table.column(2)[0].as_py() ^ 1, *table.column(2).to_pylist()[1:]])
    )
    atomic.write_parquet(flipped.replace_schema_metadata({PARQUET_KEY: record}), path)
    derive(accepted, EVAL, Silent())
    assert failed(accepted) == {"stored_files"}
    assert "bm25_stem_index/all.parquet" in gates(accepted)["stored_files"]["message"]


def test_only_accepting_writes_the_baseline(workspace: Workspace) -> None:
    path = workspace.archive.baseline_path
    update(set_to(workspace, "[fusion]\nc = 10\n"))
    assert not path.exists()
    accept_measured(Workspace.open(workspace.home), release=False)
    written = path.read_bytes()
    update(set_to(workspace, "depth = 5\n"))
    assert path.read_bytes() == written
    assert json.loads(written)["format"] == 1
    assert [other.name for other in Path(path.parent).iterdir() if other != path] == ["gold_set.json"]
