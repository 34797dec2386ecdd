"""A run that is stopped at any moment leaves nothing half-written, and the next one goes on from there."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import copy_sources, run_librarian, start_librarian

# How many more files a run may write before it is killed, one run after the other.
STEPS = (1, 4)
PATIENCE_S = 90
ALL_FILES = 3 * 5 + 7 + 7  # of the episodes, of the archive, and beside these


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = copy_sources(tmp_path / "home", only=("ep03", "ep06", "ep10"))
    (home / "librarian.toml").write_text('[embeddings]\nmodel = "char-ngram"\n[whisper]\nmodel = "tiny.en"\n')
    (home / "gold" / "gold_set.json").write_text("[]")
    return home


def test_a_run_killed_again_and_again_goes_on_and_ends_as_an_undisturbed_one(home: Path, tmp_path: Path) -> None:
    undisturbed = tmp_path / "undisturbed"
    for path in home.rglob("*"):
        if path.is_file():
            target = undisturbed / path.relative_to(home)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    for step in STEPS:
        before = _written(home)
        process = start_librarian("run", "--home", str(home))
        _wait_until(lambda enough=before + step: _written(home) >= enough)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert _written(home) < ALL_FILES
        for path in home.glob("warehouse/*/*.parquet"):
            pq.read_table(path, partitioning=None)
    assert run_librarian("run", "--home", str(home)).returncode == 0
    assert run_librarian("run", "--home", str(undisturbed)).returncode == 0
    assert _content(home) == _content(undisturbed)
    assert not list(home.glob("warehouse/*/.*.tmp"))


def test_ctrl_c_ends_the_run_with_one_line_and_the_next_one_goes_on(home: Path) -> None:
    process = start_librarian("run", "--home", str(home))
    _wait_until(lambda: len(list(home.glob("warehouse/notes/*.parquet"))) > 0)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip().splitlines()[-1] == (
        "error: interrupted; what was finished is kept, and the next run goes on from there"
    )
    kept = {path: path.stat().st_mtime_ns for path in home.glob("warehouse/notes/*.parquet")}
    assert kept
    assert run_librarian("run", "--home", str(home)).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_two_runs_at_once_both_come_through_and_nothing_is_derived_twice(home: Path) -> None:
    (home / "audio" / "ep03.opus").unlink()
    commands = [start_librarian("run", "--home", str(home)) for _ in range(2)]
    said = [process.communicate(timeout=PATIENCE_S) for process in commands]
    assert [process.returncode for process in commands] == [0, 0], said
    # One of them found the other at work, waited, and then had nothing left to do.
    assert sorted("waiting until it has ended" in errors for _, errors in said) == [False, True]
    [waited] = [output for output, errors in said if "waiting until it has ended" in errors]
    assert "everything is up to date" in waited


def test_the_lock_of_a_killed_run_is_no_obstacle(home: Path) -> None:
    first = start_librarian("run", "--home", str(home))
    _wait_until(lambda: _written(home) > 0)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    finished = run_librarian("run", "--home", str(home))
    assert finished.returncode == 0
    assert "another run" not in finished.stderr


def _written(home: Path) -> int:
    return len(list(home.glob("warehouse/*/*.parquet")))


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _content(home: Path) -> dict[str, str]:
    return {str(item): record.version for item, record in Workspace.open(home).observe().stored.items()}
