"""The core of the sample archive, brought up to date once for all tests, by the command that people run, without network.

`make test-sample` sees to the whole archive.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest
from filelock import FileLock

from librarian_pipeline.workspace import Workspace

REPOSITORY = Path(__file__).parent.parent
SAMPLE = REPOSITORY / "data"
GOLD_SET = "gold_set.json"
CORE = tuple(f"ep{number:02d}" for number in range(1, 11))
"""Ten episodes of every kind: deriving all of them would take most of the tests' time."""
CORE_SETTINGS = '[embeddings]\nmodel = "multilingual-e5-small"\n'
"""A model that loads at once: the default one takes seconds in each process. `make test-sample` has the default."""
SOURCES = ("audio", "notes", "transcripts", "gold")
LIBRARIAN = Path(sys.executable).parent / "librarian"
FIRST = Path(__file__).parent / "pipeline" / "test_run.py"
GUARD = Path(__file__).parent / "pipeline" / "guard"

RunResult = subprocess.CompletedProcess[str]
RunLibrarian = Callable[..., RunResult]


@dataclass(frozen=True)
class SampleRun:
    """The archive after its first run, what the command printed, and the connections it tried."""

    home: Path
    result: "subprocess.CompletedProcess[str]"
    network_attempts: Path


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without settings of its own."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("LIBRARIAN_", "DAGSTER_"))}
    cache = os.environ.get("LIBRARIAN_CACHE")
    return {**plain, **({"LIBRARIAN_CACHE": cache} if cache else {}), **changes}


def run_librarian(*arguments: str, env: Mapping[str, str] | None = None, timeout: float = 500) -> RunResult:
    return subprocess.run(
        [LIBRARIAN, *arguments], env=dict(env or environment()), capture_output=True, text=True, timeout=timeout, check=False
    )


def start_librarian(*arguments: str, log: Path | None = None) -> "subprocess.Popen[str]":
    """A command in the background that takes Ctrl-C, as it does on a terminal, whatever this process does with it.

    What it prints goes to `log`, or to pipes.
    """
    return subprocess.Popen(
        [LIBRARIAN, *arguments],
        env=environment(),
        stdout=log.open("w") if log else subprocess.PIPE,
        stderr=subprocess.STDOUT if log else subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def copy_sources(target: Path, *, only: tuple[str, ...] = ()) -> Path:
    """The sample archive's files, of some episodes only if `only` names them, without what was derived from them.

    Their gold set then asks for nothing that isn't there, and their settings are `CORE_SETTINGS`.
    """
    for folder in SOURCES:
        (target / folder).mkdir(parents=True, exist_ok=True)
        for path in (SAMPLE / folder).iterdir():
            if not only or path.stem in only or (folder == "gold" and path.name == GOLD_SET):
                shutil.copy2(path, target / folder)
    if only:
        keep_queries_of(target / "gold" / GOLD_SET, only)
        (target / "librarian.toml").write_text(CORE_SETTINGS)
    return target


def keep_queries_of(gold_set: Path, episodes: tuple[str, ...]) -> None:
    """Takes the other queries out of a gold set."""
    queries = json.loads(gold_set.read_text(encoding="utf-8"))
    kept = [query for query in queries if {span["episode"] for span in query["relevant"]} <= set(episodes)]
    gold_set.write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")


@pytest.fixture(scope="session")
def sample_run(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> SampleRun:
    """One run for all workers: the first that needs it makes it, the others wait."""
    own = tmp_path_factory.getbasetemp()
    shared = (own if worker_id == "master" else own.parent) / "sample"
    home, attempts, record = shared / "archive", shared / "network-attempts", shared / "result.json"
    with FileLock(f"{shared}.lock"):
        if not record.exists():
            copy_sources(home, only=CORE)
            guarded = environment(PYTHONPATH=str(GUARD), NETWORK_ATTEMPTS=str(attempts))
            result = run_librarian("run", "--home", str(home), env=guarded)
            record.write_text(json.dumps([result.args, result.returncode, result.stdout, result.stderr], default=str))
    return SampleRun(home, subprocess.CompletedProcess(*json.loads(record.read_text())), attempts)


@pytest.fixture(scope="session")
def sample(sample_run: SampleRun) -> Workspace:
    """The sample archive, up to date. For tests that only read."""
    assert sample_run.result.returncode == 0, sample_run.result.stderr
    return Workspace.open(sample_run.home)


@pytest.fixture
def sample_copy(sample: Workspace, tmp_path: Path) -> Workspace:
    """A copy of it. For tests that change things."""
    home = tmp_path / "archive"
    shutil.copytree(sample.home, home)
    return Workspace.open(home)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The file that has the sample archive derived goes first: the other worker has tests that need not wait."""
    items.sort(key=lambda item: item.path != FIRST)


# An account that is configured where the tests run is none of their business, unless they are asked to use it.
if os.environ.get("AZURE_LIVE") != "1":
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        del os.environ[name]

# Timings on a busy machine say nothing about an example.
hypothesis.settings.register_profile("pipeline", deadline=None)
hypothesis.settings.load_profile("pipeline")
