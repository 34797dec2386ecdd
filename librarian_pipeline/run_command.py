"""What `librarian run` does: brings an archive up to date, shows how far it is, and says at its end what came of it."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from librarian_pipeline.checks import Severity
from librarian_pipeline.console import print_lines, print_score_table, showing_progress
from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.gates import NOTHING_ACCEPTED
from librarian_pipeline.evaluation.gold_health import gold_health
from librarian_pipeline.evaluation.hygiene import LABELS, HygieneCheck
from librarian_pipeline.evaluation.measure import stored_gates, stored_score_table
from librarian_pipeline.evaluation.showing_gates import failure_lines, warning_lines
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.outdated import verdicts
from librarian_pipeline.lineage.planning import Batch, Planner, Scope
from librarian_pipeline.lineage.recipes import transcript_source
from librarian_pipeline.publication import standing
from librarian_pipeline.storage import duckdb_mirror
from librarian_pipeline.workspace import Workspace

if TYPE_CHECKING:
    from librarian_pipeline.derivation.updating import Update


def run_archive(workspace: Workspace, scope: Scope, *, prune: bool = False, debug: bool = False) -> int:
    """Returns the exit code: 0 if all is well, 1 if an episode, a step, a gate or the gold set is not, or if the index is
    not published.

    `prune` takes it that episodes whose files are gone are meant to be; `debug` shows the tracebacks of failed steps.

    Waits while another run is at work on the archive. Raises `UsageError` if most of its files are gone.
    """
    if not os.access(workspace.home, os.W_OK):
        raise UsageError(f"{workspace.home} can't be written", "make it writable, to keep what is derived")
    workspace.warehouse.root.mkdir(parents=True, exist_ok=True)
    with _run_lock(workspace):
        workspace.tidy(prune=prune)
        outcome = _derive(workspace, scope)
        if debug and outcome is not None:
            print_lines(outcome.traces.values(), to_stderr=True)
        _refresh_mirror(workspace)
        return _conclude(workspace, outcome)


@contextmanager
def _run_lock(workspace: Workspace) -> Iterator[None]:
    """One command at a time: a second one waits for the first, and then does what is left. The lock of a process that was
    killed is free."""
    lock = FileLock(workspace.run_lock_path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        print_lines(["another run is at work on this archive: waiting until it has ended (Ctrl-C gives up)"], to_stderr=True)
        lock.acquire()
    except OSError as error:
        raise UsageError(
            f"{lock.lock_file} can't be written ({error.strerror})", "make the folder yours to write"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _derive(workspace: Workspace, scope: Scope) -> "Update | None":
    """What was done; None if there was nothing to do."""
    started = time.monotonic()
    discovery = workspace.archive.discover()
    world = workspace.observe(discovery)
    planner = Planner(scope)
    batches = planner.next_round(verdicts(world), world.episodes)
    if not batches:
        failed = len(workspace.failures(world.episodes, discovery))
        print_lines([f"nothing new to derive; {failed} could not be" if failed else "everything is up to date"])
        return None
    # Dagster takes seconds to import: only where there is something to do.
    from librarian_pipeline.defs.update import update_through_dagster

    with showing_progress(seconds_of_audio(workspace, batches)) as progress:
        outcome = update_through_dagster(workspace, planner, progress)
    counts: dict[str, int] = {}
    for item in outcome.derived:
        counts[item.asset] = counts.get(item.asset, 0) + 1
    done = ", ".join(f"{asset} {n}" for asset, n in counts.items()) or "nothing"
    print_lines([f"derived in {time.monotonic() - started:.0f} s: {done}"])
    return outcome


def seconds_of_audio(workspace: Workspace, batches: Sequence[Batch]) -> dict[str, float]:
    """How long transcription has to work: the stated length of the audio to be transcribed."""
    from librarian_pipeline.speech.decode import header_duration_ms

    episodes = workspace.archive.discover().episodes
    due = [episodes[batch.partition] for batch in batches if batch.partition and "transcripts" in batch.assets]
    spoken = [files.audio for files in due if transcript_source(files, workspace.settings) == "audio" and files.audio]
    return {"transcripts": sum((header_duration_ms(path) or 0) / 1000 for path in spoken)}


def _refresh_mirror(workspace: Workspace) -> None:
    """Catches up with what another program kept from being written."""
    try:
        if not duckdb_mirror.is_current(workspace.warehouse):
            duckdb_mirror.refresh(workspace.warehouse)
    except duckdb_mirror.MirrorBusyError as error:
        print_lines([f"warning: {error}: its tables are brought up to date by the next run"], to_stderr=True)


def _conclude(workspace: Workspace, outcome: "Update | None") -> int:
    """Prints the score table, then all that is not well."""
    discovery = workspace.archive.discover()
    failures = workspace.failures(discovery.episodes, discovery)
    gold: list[HygieneCheck] = []
    gates: list[dict[str, Any]] = []
    if workspace.warehouse.committed("eval_scores") is not None:
        print_score_table(stored_score_table(workspace.warehouse))
        print_lines(["", *_where_next(workspace)])
        # Of a gold set that was refused, what the one before came to is nobody's concern.
        if Item("gold_set") not in failures:
            checks = gold_health(workspace.warehouse, workspace.settings.gold)
            gold = [check for check in checks if not check.passed and check.name != LABELS]  # of labels, a gate tells
            gates = stored_gates(workspace.warehouse)
    findings = _findings(workspace)
    broken = [
        *(f"failed: {item}: {failure.line}" for item, failure in failures.items()),
        *_error_lines(outcome),
        *(f"check: {line}" for severity, line in findings if severity == Severity.ERROR),
        *(f"gold set: {check.line}" for check in gold if check.severity is Severity.ERROR),
        *failure_lines(gates),
    ]
    deferred = outcome.deferred if outcome else {}
    print_lines([f"left out: {problem.line}" for problem in discovery.problems], to_stderr=True)
    print_lines([f"deferred: {episode}: {line}" for episode, line in deferred.items()], to_stderr=True)
    print_lines([f"warning: {line}" for severity, line in findings if severity == Severity.WARN], to_stderr=True)
    print_lines((f"warning: gold set: {check.line}" for check in gold if check.severity is Severity.WARN), to_stderr=True)
    for line in warning_lines(gates):
        # That nobody has accepted anything yet is where everybody begins.
        print_lines([f"note: {line}" if line == NOTHING_ACCEPTED else f"warning: {line}"], to_stderr=True)
    print_lines(broken, to_stderr=True)
    return 1 if broken or not _tell_publication(workspace) else 0


def _tell_publication(workspace: Workspace) -> bool:
    """Whether the index that is in the warehouse is published, or a person went back from it."""
    if workspace.warehouse.committed("eval_scores") is None:  # then another line says why not
        return True
    now = standing(workspace)
    if now.refusal is None and not stored_score_table(workspace.warehouse).n_queries:
        print_lines(["warning: published without a measurement: no gold query was measured"], to_stderr=True)
    print_lines([now.line], to_stderr=now.refusal is not None)
    return now.refusal is None


def _findings(workspace: Workspace) -> list[tuple[str, str]]:
    """Severity and line of each check that an episode did not pass."""
    if workspace.warehouse.committed("episodes") is None:
        return []
    return [
        (finding["severity"], f"{row['episode_id']}, {finding['check']}: {finding['message']}")
        for row in workspace.warehouse.read("episodes").to_pylist()
        for finding in row["findings"]
    ]


def _where_next(workspace: Workspace) -> list[str]:
    command = "librarian" if shutil.which("librarian") else str(_shown(Path(sys.argv[0]).absolute()))
    home = shlex.quote(str(_shown(workspace.home)))
    return [
        f'search:  {command} search "..." --home {home}',
        f"browse:  {command} ui --home {home}",
        f"SQL:     {_shown(workspace.warehouse.root / duckdb_mirror.DATABASE)}",
    ]


def _error_lines(outcome: "Update | None") -> list[str]:
    """A line for each unexpected error, however many items it befell."""
    if outcome is None:
        return []
    befell: dict[str, list[Item]] = {}
    for item, message in outcome.errors.items():
        befell.setdefault(message, []).append(item)
    lines = []
    for message, items in befell.items():
        others = f" and {len(items) - 1} more" if len(items) > 1 else ""
        lines.append(f"error: {items[0]}{others}: {message}")
    if outcome.left and not lines and not outcome.deferred:
        lines.append(
            f"error: {outcome.left[0]} could not be derived, and nothing said why: `librarian status` tells what is due"
        )
    return lines


def _shown(path: Path) -> Path:
    """As short as it can be named from here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
