"""What it costs to learn that nothing is to do, and to take in one changed episode, as an archive grows.

On made-up archives, each built once: the command is held against a process that reads every footer of the warehouse, and
the update against the same steps alone, derived without asking what is due.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from librarian_pipeline.derivation.derive import derive
from librarian_pipeline.derivation.updating import bring_up_to_date, in_this_process
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.planning import Planner, Scope
from librarian_pipeline.storage import duckdb_mirror
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.benchmarks.measuring import Line, compare
from librarian_pipeline_tests.silent import Silent
from librarian_pipeline_tests.synthetic import write_archive, write_episode
from librarian_pipeline_tests.synthetic.archive import SEED

NAME = "updating"
SIZES, QUICK_SIZES = (55, 2_000), (6,)
MINUTES = 3
OF_THE_EPISODE = ("notes", "transcripts", "chunks", "embeddings")
OF_THE_ARCHIVE = ("episodes", "bm25_raw_index", "bm25_stem_index", "vector_index", "eval_scores", "published_index")

COMMAND = [sys.executable, "-c", "from librarian_pipeline.cli import main; main()", "run", "--home"]
FOOTERS = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
import librarian_pipeline.run_command

found = [pq.read_metadata(path).metadata for path in Path(sys.argv[1]).glob("*/*.parquet")]
assert all(b"librarian" in metadata for metadata in found) and len(found) > 10
"""


def run(quick: bool) -> list[Line]:
    rounds, long_rounds = (1, 1) if quick else (5, 3)
    lines: list[Line] = []
    for n in QUICK_SIZES if quick else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            lines.extend(_measured(_built(Path(folder) / "archive", n), rounds, long_rounds))
    return lines


def _measured(workspace: Workspace, rounds: int, long_rounds: int) -> Iterator[Line]:
    update = _Update(workspace)
    case = f"{update.n_episodes:,} episodes"
    command = [*COMMAND, str(workspace.home)]
    footers = [sys.executable, "-c", FOOTERS, str(workspace.warehouse.root)]
    # The first one remembers what the footers say, as any run does that has derived much.
    _run(command)
    title = "nothing to do, against reading every footer"
    yield compare(title, case, lambda: _run(command), lambda: _run(footers), rounds)
    title = "one changed episode, against its steps and the reduce alone"
    yield compare(title, case, update.planned, update.steps_alone, long_rounds)
    title = "the same by the command, with Dagster's start"
    yield compare(title, case, update.by_command, update.steps_alone, long_rounds)


def _built(home: Path, n: int) -> Workspace:
    write_archive(home, n, minutes=MINUTES)
    workspace = Workspace.open(home)
    bring_up_to_date(workspace, Planner(Scope()), Silent(), in_this_process(workspace, Silent()))
    duckdb_mirror.refresh(workspace.warehouse)
    return workspace


class _Update:
    """Gives an episode other words, time and again, and derives what comes of it in one way or another."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        episodes = workspace.archive.discover().episodes
        self.n_episodes = len(episodes)
        queries = json.loads(workspace.archive.gold_path.read_text(encoding="utf-8"))
        judged = {span["episode"] for query in queries for span in query["relevant"]}
        # One that no query is about: its labels would be lost with its words.
        episode = next(episode for episode in episodes if episode not in judged)
        self._number = int(episode.removeprefix("syn"))
        self._steps = [*(Item(name, episode) for name in OF_THE_EPISODE), *map(Item, OF_THE_ARCHIVE)]
        self._seeds = count(SEED + 1)

    def planned(self) -> None:
        self._change()
        run_batch = in_this_process(self._workspace, Silent())
        done = bring_up_to_date(self._workspace, Planner(Scope()), Silent(), run_batch)
        assert sorted(done.derived) == sorted(self._steps)
        assert done.left == []

    def by_command(self) -> None:
        self._change()
        _run([*COMMAND, str(self._workspace.home)])

    def steps_alone(self) -> None:
        self._change()
        for item in self._steps:
            derive(self._workspace, item, Silent())

    def _change(self) -> None:
        write_episode(self._workspace.home, self._number, seed=next(self._seeds), minutes=MINUTES)


def _run(command: list[str]) -> None:
    root = str(Path(__file__).absolute().parents[2])
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": root})
    assert done.returncode == 0, done.stderr
