"""Which runs are waiting or at work, and which only seem to be, since their process was killed."""

from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg
from filelock import FileLock, Timeout

from librarian_pipeline.defs.instance import COMMAND_TAG
from librarian_pipeline.derivation.derive import item_lock
from librarian_pipeline.lineage.graph import ARCHIVE_ASSETS, EPISODE_ASSETS, Item
from librarian_pipeline.storage.warehouse import Warehouse

PARTITION_TAG = "dagster/partition"
IDLE_S = 300
"""A run of which no step has been at work for this long is taken for dead. Should it live yet, no harm is done: its steps
find what others derived meanwhile."""
_WAITING = [dg.DagsterRunStatus.QUEUED]
_STARTED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True)
class RunAtWork:
    """A run that has not ended, and what it is to derive."""

    partition: str | None
    items: frozenset[Item]


def runs_at_work(instance: dg.DagsterInstance) -> list[RunAtWork]:
    runs = instance.get_runs(dg.RunsFilter(statuses=[*_WAITING, *_STARTED]))
    return [RunAtWork(run.tags.get(PARTITION_TAG), _items(run)) for run in runs]


def close_idle_runs(
    instance: dg.DagsterInstance, warehouse: Warehouse, idle_since: Mapping[str, float], now: float
) -> dict[str, float]:
    """Marks runs as canceled of which no step was seen at work for `IDLE_S` seconds: whoever ran them was killed.

    `idle_since` is what the last call returned: the runs that were seen idle, with the time (in seconds) of the first look.
    """
    idle: dict[str, float] = {}
    for run in instance.get_runs(dg.RunsFilter(statuses=_STARTED)):
        if COMMAND_TAG.items() <= run.tags.items() or _is_at_work(run, warehouse):
            continue  # the next command closes those that a command left
        since = idle_since.get(run.run_id, now)
        if now - since < IDLE_S:
            idle[run.run_id] = since
        else:
            instance.report_run_canceled(run, message="No step of it is at work any more: its process was killed.")
    return idle


def close_dead_runs(instance: dg.DagsterInstance, *, of_commands: bool) -> None:
    """Marks as canceled the runs that commands, or the UI and its daemon, left unfinished when they were killed.

    Call it only while no other of the kind is running.
    """
    for run in instance.get_runs(dg.RunsFilter(statuses=_STARTED)):
        if (COMMAND_TAG.items() <= run.tags.items()) == of_commands:
            instance.report_run_canceled(run, message="What started this run ended before it did.")


def _items(run: dg.DagsterRun) -> frozenset[Item]:
    partition = run.tags.get(PARTITION_TAG)
    chosen = {key.to_user_string() for key in run.asset_selection} if run.asset_selection is not None else None
    assets = EPISODE_ASSETS if partition is not None else ARCHIVE_ASSETS
    return frozenset(Item(asset, partition) for asset in assets if chosen is None or asset in chosen)


def _is_at_work(run: dg.DagsterRun, warehouse: Warehouse) -> bool:
    return any(_is_held(item_lock(warehouse, item)) for item in _items(run))


def _is_held(lock: FileLock) -> bool:
    try:
        with lock.acquire(blocking=False):
            return False
    except Timeout:
        return True
