"""What is missing or broken on this machine or in this archive, and what to do about it."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from librarian_pipeline.archive.notes import read_front_matter
from librarian_pipeline.cache import cache_dir
from librarian_pipeline.checks import Severity
from librarian_pipeline.console import print_lines
from librarian_pipeline.errors import LibrarianError, SourceError
from librarian_pipeline.evaluation.gold import gold_table, read_gold_set
from librarian_pipeline.evaluation.gold_health import gold_health
from librarian_pipeline.evaluation.hygiene import HygieneCheck, shortened
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.publication import standing
from librarian_pipeline.retrieval.embedders import embedder_card
from librarian_pipeline.speech.weights import resolve_whisper
from librarian_pipeline.storage import duckdb_mirror
from librarian_pipeline.workspace import Workspace

OLDEST_PYTHON = (3, 11)
FREE_SPACE_WANTED = 1 << 30
OFFENDERS = 10
"""Of the gold set: those that a line names; the report has all."""


@dataclass(frozen=True)
class Finding:
    """`problem` is empty where all is well; otherwise one line that says what to do. A warning is worth a look, no more."""

    subject: str
    detail: str
    problem: str = ""
    is_warning: bool = False


def examine(home: Path) -> Iterator[Finding]:
    """Finding after finding; a broken one doesn't keep the others from being looked for."""
    python = ".".join(map(str, sys.version_info[:3]))
    old = "" if sys.version_info >= OLDEST_PYTHON else "install Python 3.11 or later"
    yield Finding("Python", python, old)
    yield _tried("cache folder", lambda: str(cache_dir()))
    free = shutil.disk_usage(home if home.exists() else Path.cwd()).free
    yield Finding("free space", f"{free / 1e9:.0f} GB", "" if free > FREE_SPACE_WANTED else "make room: 1 GB is needed")
    try:
        workspace = Workspace.open(home)
        discovery = workspace.archive.discover()
    except LibrarianError as error:
        yield Finding("archive", str(home), str(error))
        return
    settings = workspace.settings
    yield _tried("speech to text", lambda: f"{settings.whisper.model}: {resolve_whisper(settings.whisper.model)[1].source}")
    yield _tried("embeddings", lambda: embedder_card(settings.embeddings).label)
    empty = "" if discovery.episodes else workspace.archive.empty_message()
    yield Finding("episodes", f"{len(discovery.episodes)} in {home}", empty)
    for problem in discovery.problems:
        yield Finding("file left out", problem.path.name, problem.line)
    failures = workspace.failures(discovery.episodes)
    for files in discovery.episodes.values():
        if files.notes is not None and Item("notes", files.episode_id) not in failures:
            finding = _tried(f"notes[{files.episode_id}]", _reading(files.notes))
            if finding.problem:
                yield finding
    for item, failure in failures.items():
        if item.asset != "gold_set":
            yield Finding(str(item), "failed", failure.line)
    yield _tried("gold set", lambda: _gold_state(workspace))
    yield from _examine_warehouse(workspace)


def _gold_state(workspace: Workspace) -> str:
    queries = read_gold_set(workspace.archive.gold_path)
    unanswerable = sum(not query.relevant for query in queries)
    return f"{len(queries)} queries, {unanswerable} of them unanswerable"


def _examine_warehouse(workspace: Workspace) -> Iterator[Finding]:
    if workspace.warehouse.committed("bm25_raw_index") is None:
        yield Finding("index", "none yet", f"run `librarian run --home {workspace.home}`")
        return
    try:
        gold = gold_table(read_gold_set(workspace.archive.gold_path))
        yield from map(_gold_finding, gold_health(workspace.warehouse, workspace.settings.gold, gold))
    except SourceError:
        pass  # told already
    yield _tried("published index", lambda: _published_state(workspace))
    if os.access(workspace.home, os.W_OK):
        yield _tried("DuckDB", lambda: _mirror_state(workspace))
    else:
        yield Finding("archive", "read only", f"{workspace.home} can't be written: make it writable")


def _gold_finding(check: HygieneCheck) -> Finding:
    told = f"{check.message}: {shortened(check.offenders, OFFENDERS)}" if check.offenders else check.message
    wrong = check.severity is Severity.ERROR and not check.passed
    return Finding(f"gold set, {check.name}", told, told if wrong else "", not check.passed)


def _published_state(workspace: Workspace) -> str:
    served = workspace.snapshots.current_id()
    if served is None:
        return standing(workspace).line
    workspace.snapshots.open(served, thoroughly=True)
    return f"{served}, every file as it was published"


def _mirror_state(workspace: Workspace) -> str:
    try:
        current = duckdb_mirror.is_current(workspace.warehouse)
    except duckdb_mirror.MirrorBusyError as error:
        raise LibrarianError(str(error), "close it there, so that the next run can bring it up to date") from error
    if not current:
        raise LibrarianError("its tables are behind the Parquet files", "run `librarian run`")
    return "holds what the Parquet files hold"


def _reading(notes: Path) -> Callable[[], str]:
    return lambda: str(read_front_matter(notes).title)


def _tried(subject: str, examine_it: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, examine_it())
    except LibrarianError as error:
        return Finding(subject, "", str(error))


def print_findings(home: Path) -> int:
    """Returns the exit code: 1 if something is broken."""
    found = list(examine(home))
    for finding in found:
        mark = "!!" if finding.problem else "? " if finding.is_warning else "ok"
        print_lines([f"{mark} {finding.subject}: {finding.problem or finding.detail}"])
    broken = sum(bool(finding.problem) for finding in found)
    print_lines(["", f"{broken} to mend" if broken else "all is well"])
    return 1 if broken else 0
