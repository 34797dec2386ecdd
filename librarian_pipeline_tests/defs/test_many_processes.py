"""Several processes at work on one archive: the daemon's runs, each step of them a process, and a command beside them."""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from librarian_pipeline.defs.declaration import IS_NEW
from librarian_pipeline.defs.instance import open_instance
from librarian_pipeline.lineage.outdated import verdicts
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import run_librarian
from librarian_pipeline_tests.pipeline.small_archive import SENTENCES, SETTINGS, add_notes, add_published, write_gold
from librarian_pipeline_tests.pipeline.updating import bring, content
from librarian_pipeline_tests.ui_server import serving

EPISODES = [f"ep{number}" for number in range(int(os.environ.get("TEST_EPISODES", "2")))]
PATIENCE_S = 240
AT_ONCE = '[dagster]\nexecutor = "multiprocess"\nmax_concurrent_runs = 6\nsensor_interval_s = 1\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Some episodes whose vectors are not derived: a step for each, and each of them a process."""
    home = tmp_path / "home"
    for number, episode in enumerate(EPISODES):
        add_published(home, episode, SENTENCES[number % 3 : number % 3 + 4])
        add_notes(home, episode, SENTENCES[number])
    write_gold(home, {"q1": ("who counted the grain", "ep0")})
    (home / "librarian.toml").write_text(SETTINGS + AT_ONCE)
    bring(home)
    shutil.rmtree(home / "warehouse" / "embeddings")
    return home


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


def is_up_to_date(home: Path) -> bool:
    return all(verdict.settled for verdict in verdicts(Workspace.open(home).observe()).values())


def test_episodes_at_once_by_the_daemon_and_a_command_beside_it(home: Path, tmp_path: Path) -> None:
    clean = Path(shutil.copytree(home, tmp_path / "clean"))
    bring(clean)
    with serving(home, tmp_path / "ui.log"):
        with open_instance(home / "dagster_home", Workspace.open(home).settings.dagster) as instance:
            started = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
            wait_until(lambda: len(instance.get_runs(started)) >= 2, "the daemon starts runs side by side")
            command = run_librarian("run", "--home", str(home))
            assert command.returncode == 0, command.stderr
            wait_until(lambda: is_up_to_date(home), "all is derived")
            unfinished = dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTED])
            wait_until(lambda: not instance.get_runs(unfinished), "the runs end")
            failed = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
            # One that measures anew may find the index under it replaced by the command.
            assert [run.job_name for run in failed if "reeval" not in run.job_name] == []
            assert derived_by_episode(instance, "embeddings") == dict.fromkeys(EPISODES, 1)
        change_is_taken_up_by_the_daemon(home)
    # Everything but the files that the change touched is what a build from nothing gives.
    add_notes(clean, "ep0", "Changed while the daemon was at work.")
    bring(clean)
    assert content(home) == content(clean)


def derived_by_episode(instance: dg.DagsterInstance, asset: str) -> dict[str | None, int]:
    """How often each episode's output was derived, and not only found to be there."""
    records = instance.fetch_materializations(dg.AssetKey(asset), limit=1_000).records
    found = [record.asset_materialization for record in records]
    return dict(Counter(m.partition for m in found if m is not None and m.metadata[IS_NEW].value))


def change_is_taken_up_by_the_daemon(home: Path) -> None:
    add_notes(home, "ep0", "Changed while the daemon was at work.")
    wait_until(
        lambda: "Changed while" in str(Workspace.open(home).warehouse.read("chunks", "ep0").column("text").to_pylist()),
        "the daemon derives the changed notes",
    )
    wait_until(lambda: is_up_to_date(home), "and what depends on them")
