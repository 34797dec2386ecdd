"""From a changed archive to what its readers get: published if the gates are passed, refused if not, and gone back to."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from librarian_pipeline import workspace as workspace_module
from librarian_pipeline.checks.transcript import TIMES
from librarian_pipeline.cli import main
from librarian_pipeline.evaluation.measure import stored_gates
from librarian_pipeline.lineage.outdated import State, verdicts
from librarian_pipeline.lineage.planning import Scope
from librarian_pipeline.run_command import run_archive
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline.workspace import PUBLISHED, Workspace
from librarian_pipeline_tests.pipeline.small_archive import add_notes, add_published, small_archive, write_gold
from librarian_pipeline_tests.pipeline.updating import bring

Said = tuple[int, str, str]
GATE = "the fusion lost 9 queries"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Published transcripts and notes alone, up to date."""
    home = small_archive(tmp_path / "home")
    shutil.rmtree(home / "audio")
    assert bring(home).errors == {}
    return home


@pytest.fixture
def command(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def run(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["librarian", *arguments, "--home", str(home)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def served(home: Path) -> str:
    name = Workspace.open(home).snapshots.current_id()
    assert name is not None
    return name


def change(home: Path, number: int) -> None:
    add_notes(home, "one", f"A mill of {number} stones, and the salt road behind it.")


def publish_another(home: Path, number: int) -> str:
    change(home, number)
    assert bring(home).errors == {}
    return served(home)


def state(home: Path) -> State:
    return verdicts(Workspace.open(home).observe())[PUBLISHED].state


@pytest.fixture
def failing_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the scores block what is derived from them."""
    original = Workspace._observe

    def observed(self: Workspace, *arguments: Any, **more: Any) -> Any:
        world = original(self, *arguments, **more)
        scores = workspace_module.Item("eval_scores")
        return replace(world, blocks={**world.blocks, scores: GATE}) if scores in world.stored else world

    monkeypatch.setattr(Workspace, "_observe", observed)


def bytes_of(home: Path) -> dict[str, bytes]:
    published = home / "published"
    return {str(path.relative_to(published)): path.read_bytes() for path in published.rglob("*") if path.is_file()}


# Published


def test_a_run_publishes_what_it_measured_and_says_so_at_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = small_archive(tmp_path / "fresh")
    shutil.rmtree(home / "audio")
    assert run_archive(Workspace.open(home), Scope()) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"published: {served(home)}"


def test_the_row_of_the_asset_names_the_snapshot_and_tells_what_is_in_it(home: Path) -> None:
    workspace = Workspace.open(home)
    [row] = workspace.warehouse.read("published_index").to_pylist()
    assert row == {
        "snapshot_id": served(home),
        "n_episodes": 2,
        "n_passages": sum(workspace.warehouse.read("chunks", episode).num_rows for episode in ("one", "two")),
        "n_segments": 12,
        "n_queries": 2,
        "default_mode": "hybrid_cc",
        "embedding_model": "char-ngram",
    }


def test_a_snapshot_has_all_tables_that_lie_beside_the_scores_and_those_that_search_and_citations_need(home: Path) -> None:
    workspace = Workspace.open(home)
    snapshot = workspace.snapshots.current()
    scores = workspace.warehouse.committed("eval_scores")
    assert snapshot is not None
    assert scores is not None
    needed = {"chunks", "transcripts", "episodes", "gold_set", "eval_scores", "vector_index", "vector_index_model"}
    needed |= {f"{mode}_{kind}" for mode in ("bm25_raw", "bm25_stem") for kind in ("index", "documents", "corpus")}
    assert set(snapshot.tables.tables()) >= needed | set(scores.beside)


def test_nothing_is_published_anew_where_nothing_changed(home: Path) -> None:
    before = bytes_of(home)
    assert bring(home).derived == []
    (home / "gold" / "gold_set.json").write_text((home / "gold" / "gold_set.json").read_text() + "\n")
    bring(home)
    assert bytes_of(home) == before


def test_a_rebuilt_archive_gets_a_snapshot_of_the_same_name(home: Path) -> None:
    name = served(home)
    shutil.rmtree(home / "published")
    shutil.rmtree(home / "warehouse")
    bring(home)
    assert served(home) == name


def test_another_way_to_search_is_published_though_no_index_changes(home: Path) -> None:
    name = served(home)
    with (home / "librarian.toml").open("a") as settings:
        settings.write("\n[fusion]\nc = 59\n")
    bring(home)
    snapshot = Workspace.open(home).snapshots.current()
    assert snapshot is not None
    assert snapshot.id != name
    assert snapshot.manifest.search["fusion.c"] == 59


def test_an_archive_without_gold_queries_is_published_with_a_warning(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = served(home)
    (home / "gold" / "gold_set.json").write_text("[]")
    bring(home)
    assert served(home) != name
    assert run_archive(Workspace.open(home), Scope()) == 0
    assert "warning: published without a measurement" in capsys.readouterr().err


def test_a_deleted_or_damaged_publication_is_made_again_by_the_next_run(home: Path, command: Callable[..., Said]) -> None:
    name = served(home)
    shutil.rmtree(home / "published")
    assert "published_index: missing: nothing is published" in command("status")[1]
    assert bring(home).derived == [PUBLISHED]
    assert served(home) == name
    (home / "published" / name / "chunks" / "one.parquet").unlink()
    assert f"published_index: missing: the snapshot {name} is damaged: chunks/one.parquet" in command("status")[1]
    assert bring(home).derived == [PUBLISHED]
    assert state(home) is State.FRESH


def test_a_flipped_bit_in_the_warehouse_is_not_published(home: Path) -> None:
    before = served(home)
    with (home / "librarian.toml").open("a") as settings:  # measures anew, and reads no transcript
        settings.write("\n[fusion]\nc = 59\n")
    flip_a_bit_that_counts(Workspace.open(home).warehouse, "transcripts", "two")
    bring(home)
    [gate] = [row for row in stored_gates(Workspace.open(home).warehouse) if row["gate"] == "stored_files"]
    assert not gate["passed"]
    assert "transcripts/two.parquet" in gate["message"]
    assert served(home) == before


def flip_a_bit_that_counts(warehouse: Warehouse, table: str, partition: str) -> None:
    """The first, after the magic number, without which the rows are others or can't be read."""
    path, whole = warehouse.path(table, partition), warehouse.read(table, partition).to_pylist()
    content = path.read_bytes()
    for position in range(4, len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1
        path.write_bytes(flipped)
        try:
            rows = warehouse.read(table, partition).to_pylist()
        except (OSError, ValueError):
            return
        if rows != whole:
            return
    raise AssertionError("every bit may be flipped")


# Refused


def test_where_a_gate_fails_the_old_snapshot_goes_on_being_served_and_the_run_says_why(
    home: Path, failing_gate: None, capsys: pytest.CaptureFixture[str]
) -> None:
    before, name = bytes_of(home), served(home)
    change(home, 1)
    bring(home)
    assert run_archive(Workspace.open(home), Scope()) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (f"not published: eval_scores: {GATE}; {name} goes on being served")
    assert bytes_of(home) == before


def test_the_status_of_what_a_gate_holds_back_names_the_gate(home: Path, failing_gate: None) -> None:
    change(home, 1)
    bring(home)
    verdict = verdicts(Workspace.open(home).observe())[PUBLISHED]
    assert (verdict.state, verdict.reasons) == (State.BLOCKED, (f"eval_scores: {GATE}",))


def test_publishing_by_hand_is_refused_where_a_gate_failed(
    home: Path, failing_gate: None, command: Callable[..., Said]
) -> None:
    before = bytes_of(home)
    change(home, 1)
    bring(home)
    code, _, error = command("publish")
    assert code == 1
    assert f"not published: eval_scores: {GATE}; {served(home)} goes on being served" in error
    assert bytes_of(home) == before


def test_publishing_by_hand_is_refused_where_indexes_changed_since_they_were_measured(
    home: Path, command: Callable[..., Said]
) -> None:
    before, warehouse = bytes_of(home), Workspace.open(home).warehouse
    record = warehouse.committed("vector_index")
    assert isinstance(record, Provenance)
    beside = {name: warehouse.read(name).replace_schema_metadata() for name in record.beside}
    rows = warehouse.read("vector_index").replace_schema_metadata().slice(1)
    warehouse.write("vector_index", None, rows, recipe=record.recipe, inputs=record.inputs, beside=beside)
    code, _, error = command("publish")
    assert (code, "vector_index changed since the index was measured" in error) == (1, True)
    assert bytes_of(home) == before


def test_what_was_refused_is_published_once_the_gate_is_passed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = served(home)
    with monkeypatch.context() as patched:
        original = Workspace._observe
        blocks = {workspace_module.Item("eval_scores"): GATE}
        patched.setattr(Workspace, "_observe", lambda *a, **k: replace(original(*a, **k), blocks=blocks))
        change(home, 1)
        bring(home)
        assert served(home) == name
    assert bring(home).derived == [PUBLISHED]
    assert served(home) != name


# Back and forth


def test_going_back_and_forth_by_command(home: Path, command: Callable[..., Said]) -> None:
    first, second = served(home), publish_another(home, 1)
    code, said, _ = command("publish", "--rollback")
    assert (code, said.splitlines()[0]) == (0, f"rolled back: {first} is served instead of {second}")
    code, _, error = command("publish", "--rollback")
    assert (code, f"{first} is the oldest whole snapshot that is kept" in error) == (2, True)
    assert served(home) == first
    assert command("publish")[:2] == (0, f"published: {second} (before: {first})\n")
    assert command("publish")[:2] == (0, f"published: {second}, as before\n")


def test_a_step_back_stays_until_the_archive_changes(home: Path, command: Callable[..., Said]) -> None:
    first, second = served(home), publish_another(home, 1)
    command("publish", "--rollback")
    assert bring(home).derived == []
    code, said, _ = command("run")
    assert code == 0
    assert said.splitlines()[-1].startswith(f"published: {first}, gone back to from {second}, ")
    third = publish_another(home, 2)
    assert third not in (first, second)
    assert Workspace.open(home).snapshots.history() == [first, third]


def test_the_list_marks_the_one_that_is_served(home: Path, command: Callable[..., Said]) -> None:
    first, second = served(home), publish_another(home, 1)
    command("publish", "--rollback")
    listed = json.loads(command("publish", "--list", "--json")[1])
    assert [(row["id"], row["is_served"], row["episodes"]) for row in listed] == [(second, False, 2), (first, True, 2)]
    lines = command("publish", "--list")[1].splitlines()
    assert [line.split()[0] for line in lines[1:]] == [second, "served"]


def test_as_many_snapshots_are_kept_as_the_settings_say(home: Path) -> None:
    with (home / "librarian.toml").open("a") as settings:
        settings.write("\n[publication]\nkeep_snapshots = 2\n")
    for number in range(4):
        publish_another(home, number)
    folders = [path.name for path in (home / "published").iterdir() if path.is_dir()]
    assert len(folders) == 2
    assert served(home) in folders


# Read


def test_search_reads_the_published_snapshot_and_names_it(home: Path, command: Callable[..., Said]) -> None:
    name = served(home)
    code, said, error = command("search", "who counted his sacks", "--json")
    hits = json.loads(said)
    assert (code, error) == (0, "")
    assert hits[0]["citation"] == "Ep. one @ 00:00"
    assert {hit["snapshot"] for hit in hits} == {name}


def test_search_does_not_find_what_is_not_published_and_says_so(
    home: Path, failing_gate: None, command: Callable[..., Said]
) -> None:
    add_notes(home, "one", "A zeppelin over the mill.")
    bring(home)
    code, said, error = command("search", "zeppelin", "--mode", "bm25_raw")
    assert (code, said.startswith("no passage holds any word")) == (0, True)
    assert f"note: the published index {served(home)} is searched; the latest one differs: not published: " in error
    assert GATE in error


def test_search_after_a_step_back_says_so(home: Path, command: Callable[..., Said]) -> None:
    first, second = served(home), publish_another(home, 1)
    command("publish", "--rollback")
    error = command("search", "mill")[2]
    assert f"the published index {first} is searched" in error
    assert f"gone back to from {second}" in error


def test_search_works_without_a_warehouse(home: Path, command: Callable[..., Said]) -> None:
    shutil.rmtree(home / "warehouse")
    code, said, error = command("search", "who counted his sacks")
    assert (code, error) == (0, "")
    assert said.startswith("1. Ep. one @ 00:00")


def test_search_uses_the_settings_that_were_measured(home: Path, command: Callable[..., Said]) -> None:
    before = command("search", "mill", "--json")[1]
    with (home / "librarian.toml").open("a") as settings:
        settings.write("\n[fusion]\nc = 1\n")
    assert command("search", "mill", "--json")[1] == before


def test_before_the_first_publication_search_says_what_to_do(home: Path, command: Callable[..., Said]) -> None:
    shutil.rmtree(home / "published")
    shutil.rmtree(home / "warehouse")
    code, _, error = command("search", "mill")
    assert code == 2
    assert f"there is no published index yet: run `librarian run --home {home}`" in error


def test_if_the_first_candidate_was_refused_search_says_why(
    home: Path, failing_gate: None, command: Callable[..., Said]
) -> None:
    shutil.rmtree(home / "published")
    code, _, error = command("search", "mill")
    assert code == 2
    assert f"there is no published index yet (eval_scores: {GATE})" in error


def test_in_place_of_a_damaged_snapshot_the_one_before_is_searched_with_a_warning(
    home: Path, command: Callable[..., Said]
) -> None:
    first, second = served(home), publish_another(home, 1)
    (home / "published" / second / "manifest.json").unlink()
    code, said, error = command("search", "mill", "--json")
    assert code == 0
    assert f"warning: the snapshot {second} is damaged" in error
    assert {(hit["snapshot"], second in hit["warning"]) for hit in json.loads(said)} == {(first, True)}
    assert command("publish", "--rollback")[0] == 0
    assert command("search", "mill")[2].startswith(f"note: the published index {first} is searched")


def test_where_no_snapshot_is_whole_search_says_what_to_do(home: Path, command: Callable[..., Said]) -> None:
    (home / "published" / served(home) / "manifest.json").unlink()
    code, said, error = command("search", "mill")
    assert (code, said) == (1, "")
    assert f"the snapshot {served(home)} is damaged" in error
    assert "librarian run" in error


def test_doctor_reads_every_file_of_the_published_snapshot(home: Path, command: Callable[..., Said]) -> None:
    name = served(home)
    assert f"ok published index: {name}, every file as it was published" in command("doctor")[1]
    path = home / "published" / name / "vector_index" / "all.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    path.write_bytes(content)
    assert f"!! published index: the snapshot {name} is damaged: vector_index/all.parquet" in command("doctor")[1]


def test_a_passage_whose_transcript_was_replaced_is_cited_at_its_start(home: Path) -> None:
    """A transcript that blocks leaves the passages of the one before, whose segments are nowhere any more."""
    workspace = Workspace.open(home)
    record = workspace.warehouse.committed("transcripts", "one")
    assert record is not None
    beside = {name: workspace.warehouse.read(name, "one").replace_schema_metadata() for name in record.beside}
    rows = workspace.warehouse.read("transcripts", "one").replace_schema_metadata().slice(1)
    inputs, measures = record.inputs, {TIMES: 1.0}
    workspace.warehouse.write(
        "transcripts", "one", rows, recipe=record.recipe, inputs=inputs, beside=beside, measures=measures
    )
    assert PUBLISHED in bring(home).derived
    snapshot = Workspace.open(home).snapshots.current()
    assert snapshot is not None
    assert snapshot.tables.partitions("chunks") == ["one", "two"]
    assert snapshot.tables.partitions("transcripts") == ["two"]


def test_an_episode_that_is_gone_is_gone_from_the_next_snapshot(home: Path) -> None:
    add_published(home, "three", ["A third one."])
    write_gold(home, {"q1": ("who counted the grain", "one")})
    bring(home)
    (home / "transcripts" / "three.vtt").unlink()
    bring(home)
    snapshot = Workspace.open(home).snapshots.current()
    assert snapshot is not None
    assert snapshot.tables.partitions("chunks") == ["one", "two"]
