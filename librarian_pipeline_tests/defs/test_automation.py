"""The daemon's sensor and schedules: what they start, what they leave, and that no change is lost."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import dagster as dg
import duckdb
import pytest
from filelock import FileLock

from librarian_pipeline.definitions import definitions_for
from librarian_pipeline.defs import run_requests
from librarian_pipeline.defs.instance import COMMAND_TAG, ONLY_IF_DUE, open_instance
from librarian_pipeline.defs.resources import ArchiveResource
from librarian_pipeline.defs.run_requests import ATTEMPT_TAG, WHY_TAG, due_requests
from librarian_pipeline.defs.running import IDLE_S, RunAtWork, close_dead_runs, close_idle_runs, runs_at_work
from librarian_pipeline.derivation.derive import derive, item_lock
from librarian_pipeline.derivation.updating import bring_up_to_date, in_this_process
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.planning import Planner, Scope
from librarian_pipeline.storage import duckdb_mirror
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.defs.daemon import Daemon
from librarian_pipeline_tests.pipeline.small_archive import SENTENCES, add_notes, add_published, small_archive
from librarian_pipeline_tests.silent import Silent


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = small_archive(tmp_path_factory.mktemp("automation") / "home")
    shutil.rmtree(home / "audio")
    workspace = Workspace.open(home)
    update = bring_up_to_date(workspace, Planner(Scope()), Silent(), in_this_process(workspace, Silent()))
    assert not update.left
    with open_instance(home / "dagster_home", workspace.settings.dagster):
        return home


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "home"))


@pytest.fixture
def workspace(home: Path) -> Workspace:
    return Workspace.open(home)


@pytest.fixture
def instance(workspace: Workspace) -> Iterator[dg.DagsterInstance]:
    with open_instance(workspace.archive.dagster_home_dir, workspace.settings.dagster) as instance:
        yield instance


@pytest.fixture
def daemon(home: Path, instance: dg.DagsterInstance) -> Daemon:
    daemon = Daemon(home, instance)
    assert daemon.settle() == []
    return daemon


def change_notes(home: Path) -> None:
    add_notes(home, "one", "Other words altogether.")


def asked(requests: list[dg.RunRequest]) -> list[tuple[str | None, list[str]]]:
    return [(r.partition_key, sorted(key.to_user_string() for key in r.asset_selection or ())) for r in requests]


def test_nothing_is_started_where_nothing_is_out_of_date(daemon: Daemon) -> None:
    result = daemon.tick()
    assert not result.run_requests
    assert result.skip_reason is not None


def test_a_request_names_what_is_due_and_why(daemon: Daemon, home: Path) -> None:
    change_notes(home)
    [request] = daemon.tick().run_requests or []
    assert asked([request]) == [("one", ["notes"])]
    assert request.tags[WHY_TAG] == "notes[one]: file changed"
    assert ONLY_IF_DUE.items() <= request.tags.items()


def test_a_change_made_while_the_daemon_was_down_is_found(
    home: Path, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    change_notes(home)
    assert Item("chunks", "one") in Daemon(home, instance).settle()


def test_a_change_during_a_run_is_found_after_it(daemon: Daemon, home: Path) -> None:
    change_notes(home)
    [request] = daemon.tick().run_requests or []
    add_notes(home, "one", "Changed once more, after the run was asked for.")
    daemon.run(request)
    daemon.settle()
    passages = Workspace.open(home).warehouse.read("chunks", "one").column("text").to_pylist()
    assert any("Changed once more" in text for text in passages)


def test_an_episode_whose_files_are_gone_leaves_its_partition_and_every_index(
    daemon: Daemon, home: Path, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    (home / "transcripts" / "two.vtt").unlink()
    (home / "notes" / "two.md").unlink()
    daemon.settle()
    assert set(instance.get_dynamic_partitions("episodes")) == {"one"}
    assert workspace.warehouse.partitions("chunks") == ["one"]
    for table in ("bm25_raw_index", "bm25_stem_index", "vector_index"):
        ids = workspace.warehouse.read(table).column("chunk_id").to_pylist()
        assert {chunk_id.partition(":")[0] for chunk_id in ids} == {"one"}


def test_a_new_episode_is_added_as_a_partition_and_indexed(
    daemon: Daemon, home: Path, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    add_published(home, "three", SENTENCES[:3])
    result = daemon.tick()
    assert "three" in instance.get_dynamic_partitions("episodes")
    for request in result.run_requests or ():
        daemon.run(request)
    daemon.settle()
    ids = workspace.warehouse.read("vector_index").column("chunk_id").to_pylist()
    assert "three" in {chunk_id.partition(":")[0] for chunk_id in ids}


def test_most_files_gone_at_once_removes_nothing_and_says_so(daemon: Daemon, home: Path, workspace: Workspace) -> None:
    for path in [*(home / "transcripts").iterdir(), *(home / "notes").iterdir()]:
        path.unlink()
    result = daemon.tick()
    assert "files are gone" in str(result.skip_reason)
    assert not result.dynamic_partitions_requests
    assert workspace.warehouse.partitions("chunks") == ["one", "two"]


def test_what_a_run_is_at_work_on_is_not_asked_for_again(
    home: Path, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    change_notes(home)
    at_work = RunAtWork("one", frozenset({Item("notes", "one")}))
    assert due_requests(workspace, [at_work], instance) == []
    assert asked(due_requests(workspace, [], instance)) == [("one", ["notes"])]


def test_the_archives_turn_comes_when_no_episodes_run_is_at_work(
    home: Path, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    (home / "gold" / "gold_set.json").write_text("[]")
    at_work = RunAtWork("one", frozenset({Item("notes", "one")}))
    assert due_requests(workspace, [at_work], instance) == []
    assert asked(due_requests(workspace, [], instance)) == [(None, ["gold_set"])]


def test_while_a_command_is_at_work_nothing_is_started(daemon: Daemon, home: Path, workspace: Workspace) -> None:
    change_notes(home)
    with FileLock(workspace.run_lock_path):
        result = daemon.tick()
        assert not result.run_requests
        assert "command line" in str(result.skip_reason)
    assert daemon.tick().run_requests


def test_what_a_killed_command_left_unfinished_is_closed_and_asked_for_again(
    daemon: Daemon, home: Path, instance: dg.DagsterInstance
) -> None:
    change_notes(home)
    started_run(home, instance, COMMAND_TAG)
    assert asked(daemon.tick().run_requests or []) == [("one", ["notes"])]


def test_runs_of_the_other_kind_are_not_closed(home: Path, instance: dg.DagsterInstance) -> None:
    started_run(home, instance, COMMAND_TAG)
    close_dead_runs(instance, of_commands=False)
    assert len(runs_at_work(instance)) == 1
    close_dead_runs(instance, of_commands=True)
    assert runs_at_work(instance) == []


def test_the_database_loses_an_episode_that_is_gone_without_a_command(
    daemon: Daemon, home: Path, workspace: Workspace
) -> None:
    duckdb_mirror.refresh(workspace.warehouse)
    (home / "transcripts" / "two.vtt").unlink()
    (home / "notes" / "two.md").unlink()
    daemon.settle()
    with duckdb.connect(workspace.warehouse.root / duckdb_mirror.DATABASE) as connection:
        assert connection.execute("SELECT DISTINCT episode_id FROM chunks").fetchall() == [("one",)]


def test_the_reconciling_schedule_adds_new_episodes_too(daemon: Daemon, home: Path) -> None:
    add_published(home, "three", SENTENCES[:3])
    [(episode, assets)] = asked(tick_schedule(home, daemon.instance, "reconcile"))
    assert episode == "three"
    assert "transcripts" in assets
    assert "three" in daemon.instance.get_dynamic_partitions("episodes")


def test_only_so_many_runs_are_at_work_at_a_time(
    home: Path, workspace: Workspace, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_requests, "MOST_AT_WORK", 3)
    for number in range(5):
        add_published(home, f"new{number}", SENTENCES[:2])
    assert len(due_requests(workspace, [], instance)) == 3
    at_work = [RunAtWork("new0", frozenset({Item("audio", "new0")})), RunAtWork("new1", frozenset())]
    assert len(due_requests(workspace, at_work, instance)) == 1


@pytest.fixture
def breaking_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("the cutter is broken")

    monkeypatch.setattr("librarian_pipeline.derivation.passages.cut_episode", broken)


@pytest.mark.usefixtures("breaking_chunks")
def test_an_attempt_that_failed_is_made_again_after_a_pause_and_at_once_after_a_change(
    daemon: Daemon, home: Path, workspace: Workspace, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_notes(home)
    assert Item("chunks", "one") not in daemon.settle()
    now = run_requests.time.time()
    with monkeypatch.context() as later:
        later.setattr(run_requests.time, "time", lambda: now + run_requests.FIRST_PAUSE_S + 10)
        assert asked(due_requests(workspace, [], instance)) == [("one", ["chunks"])]
        for request in due_requests(workspace, [], instance):
            daemon.run(request)
    with monkeypatch.context() as later:  # the second pause is twice as long
        later.setattr(run_requests.time, "time", lambda: now + run_requests.FIRST_PAUSE_S + 20)
        assert due_requests(workspace, [], instance) == []
        later.setattr(run_requests.time, "time", lambda: now + 4 * run_requests.FIRST_PAUSE_S)
        assert due_requests(workspace, [], instance) != []
    add_notes(home, "one", "Something else again.")
    assert Item("notes", "one") in daemon.settle()
    assert len(instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))) > 2


def test_the_same_attempt_is_told_by_its_inputs_and_recipes(
    home: Path, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    def attempt() -> str:
        [request] = due_requests(workspace, [], instance)
        return request.tags[ATTEMPT_TAG]

    change_notes(home)
    first = attempt()
    assert attempt() == first
    add_notes(home, "one", "Something else.")
    assert attempt() != first


def started_run(home: Path, instance: dg.DagsterInstance, tags: Mapping[str, str] | None = None) -> str:
    """A run on record as if its process had been killed after the start."""
    job = definitions_for(home).resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(
        job, tags={"dagster/partition": "one", **(tags or {})}, asset_selection=frozenset({dg.AssetKey("notes")})
    )
    return run.run_id


def test_a_run_whose_process_was_killed_is_closed_after_a_while(
    home: Path, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    run_id = started_run(home, instance)
    assert [run.items for run in runs_at_work(instance)] == [frozenset({Item("notes", "one")})]
    idle = close_idle_runs(instance, workspace.warehouse, {}, now=1_000)
    assert idle == {run_id: 1_000}
    assert close_idle_runs(instance, workspace.warehouse, idle, now=999 + IDLE_S) == idle
    assert close_idle_runs(instance, workspace.warehouse, idle, now=1_001 + IDLE_S) == {}
    assert runs_at_work(instance) == []


def test_a_run_with_a_step_at_work_is_left_alone(home: Path, workspace: Workspace, instance: dg.DagsterInstance) -> None:
    run_id = started_run(home, instance)
    with item_lock(workspace.warehouse, Item("notes", "one")):
        assert close_idle_runs(instance, workspace.warehouse, {run_id: 0}, now=10 * IDLE_S) == {}
    assert len(runs_at_work(instance)) == 1


def test_what_another_process_derived_meanwhile_is_left_as_it_is(daemon: Daemon, home: Path, workspace: Workspace) -> None:
    change_notes(home)
    [request] = daemon.tick().run_requests or []
    derive(workspace, Item("notes", "one"), Silent())
    written = workspace.warehouse.path("notes", "one").stat().st_mtime_ns
    assert daemon.run(request) == []
    assert workspace.warehouse.path("notes", "one").stat().st_mtime_ns == written


def test_all_sensors_and_schedules_run_from_the_start(home: Path) -> None:
    definitions = definitions_for(home)
    sensors = {sensor.name: sensor.default_status.value for sensor in definitions.sensors or ()}
    schedules = {schedule.name: schedule.default_status.value for schedule in definitions.schedules or ()}
    assert sensors == {"episodes": "RUNNING"}
    assert schedules == {"reconcile": "RUNNING", "nightly_reeval": "RUNNING"}


def tick_schedule(home: Path, instance: dg.DagsterInstance, name: str) -> list[dg.RunRequest]:
    schedule = definitions_for(home).resolve_schedule_def(name)
    resources = {"archive": ArchiveResource(home=str(home))}
    with dg.build_schedule_context(instance, resources=resources) as context:
        result = schedule(context)
    if isinstance(result, dg.SkipReason):
        return []
    return [result] if isinstance(result, dg.RunRequest) else list(result)


def test_the_nightly_schedule_measures_anew_though_nothing_changed(daemon: Daemon, home: Path) -> None:
    instance = daemon.instance
    [request] = tick_schedule(home, instance, "nightly_reeval")
    assert daemon.run(request) == [Item("eval_scores")]
    assert daemon.settle() == []


def test_the_reconciling_schedule_asks_for_what_is_out_of_date(daemon: Daemon, home: Path) -> None:
    assert tick_schedule(home, daemon.instance, "reconcile") == []
    change_notes(home)
    assert asked(tick_schedule(home, daemon.instance, "reconcile")) == [("one", ["notes"])]
