"""What `librarian eval --accept` does: makes the measurement the baseline. Nothing else writes that file."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime

from filelock import FileLock, Timeout

from librarian_pipeline.console import print_lines
from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.baseline import Baseline, accept, read_baseline
from librarian_pipeline.evaluation.gates import LOST, Pairs
from librarian_pipeline.evaluation.judging import judge
from librarian_pipeline.evaluation.measure import nothing_measured
from librarian_pipeline.evaluation.ranks import Measurement, measurement_of, results_of
from librarian_pipeline.evaluation.showing_gates import SHOWN, detail_line
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.outdated import State, verdicts
from librarian_pipeline.lineage.ranked_from import ranked_from
from librarian_pipeline.retrieval.indexing import indexed_episodes
from librarian_pipeline.retrieval.modes import MODES, passages_of
from librarian_pipeline.settings import GateSettings
from librarian_pipeline.storage.schemas import CHUNKS, GOLD_SET
from librarian_pipeline.workspace import Workspace


def accept_measured(workspace: Workspace, *, release: bool) -> None:
    """Writes `gold/baseline.json` and prints what changed against the one before.

    Raises `UsageError` if nothing was measured, if it is out of date, or if a run is at work; `SourceError` if the baseline
    before can't be read.
    """
    if not workspace.warehouse.root.is_dir():
        raise nothing_measured(workspace.warehouse)
    lock = FileLock(workspace.run_lock_path)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise UsageError("a run is at work on this archive", "accept what it comes to, once it has ended") from error
    try:
        measurement = measured_now(workspace)
        path = workspace.archive.baseline_path
        before = read_baseline(path)
        after = accept(path, measurement, f"{datetime.now(UTC):%Y-%m-%d}", release=release)
    finally:
        lock.release()
    print_lines(_what_changed(before, after, workspace.settings.gates))
    print_lines([f"written: {path}: review it like any other change; the next `librarian run` holds the index against it"])


def measured_now(workspace: Workspace) -> Measurement:
    """The stored measurement. Raises `UsageError` unless it is of the archive and the settings as they are."""
    item, world = Item("eval_scores"), workspace.observe()
    record = world.stored.get(item)
    if record is None:
        raise nothing_measured(workspace.warehouse)
    fingerprint = ranked_from(record.recipe, record.inputs)
    found = verdicts(world)
    after = (item, Item("published_index"))
    due = [str(other) for other, verdict in found.items() if not verdict.settled and other not in after]
    failed = found[item].state is State.FAILED
    if due or failed or fingerprint != ranked_from(world.recipes[item], world.inputs(item)):
        why = f"{due[0]} is out of date" if due else "what is measured changed since"
        raise UsageError(f"the figures are not those of the archive as it is: {why}", "run `librarian run` first")
    warehouse = workspace.warehouse
    gold = warehouse.read_all("gold_set", ["all"], GOLD_SET)
    passages = passages_of(warehouse.read_all("chunks", indexed_episodes(warehouse), CHUNKS))
    results = results_of(warehouse.read("rankings"))
    mode = workspace.settings.retrieval.default_mode
    return measurement_of(fingerprint, mode, MODES, results, judge(gold, passages), gold, passages)


def _what_changed(before: Baseline | None, after: Baseline, settings: GateSettings) -> Iterator[str]:
    now, metric = after.baseline.measurement, settings.metric
    figures = now.figures()
    yield f"accepted: {len(now.measured)} queries in {len(figures)} modes; the default mode is {now.mode}"
    if before is None:
        yield from (f"  {mode} {metric} {of_mode[metric]:.3f}" for mode, of_mode in figures.items())
        return
    then = before.baseline.measurement
    pairs = Pairs.of(then, now)
    yield f"against the baseline of {before.baseline.accepted_at}, over {len(pairs.ids)} queries{pairs.told}:"
    for mode in figures if pairs.ids else ():
        if mode in then.modes:
            loss = pairs.find_loss(metric, mode, mode)
            yield f"  {mode} {metric} {loss.before:.3f} -> {loss.after:.3f} ({loss.wins} won, {loss.losses} lost)"
        else:
            yield f"  {mode} {metric} {figures[mode][metric]:.3f}, new"
    lost = [change for change in pairs.changes(metric, then.mode, now.mode) if change.change == LOST]
    yield from (f"  {detail_line(asdict(change))}" for change in lost[:SHOWN])
    if len(lost) > SHOWN:
        yield f"  and {len(lost) - SHOWN} more that were lost: see the diff"
