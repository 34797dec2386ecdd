"""What keeps an archive up to date while the UI's daemon runs.

Everything here asks the same pure function as the command, `lineage.outdated`, and looks at levels, not at events: a change
made while the daemon was down, or during a run, is found by the next tick. Dagster's own automation conditions are not used:
the stock ones miss such changes, and one of our own would try a failing step again at every tick.
"""

import json
import time

import dagster as dg
from filelock import FileLock, Timeout

from librarian_pipeline.defs.instance import SNAPSHOT_TAG, TRIGGER_TAG
from librarian_pipeline.defs.partitions import register_episodes
from librarian_pipeline.defs.resources import ArchiveResource
from librarian_pipeline.defs.run_requests import due_requests
from librarian_pipeline.defs.running import close_dead_runs, close_idle_runs, runs_at_work
from librarian_pipeline.errors import UsageError
from librarian_pipeline.settings import DagsterSettings
from librarian_pipeline.storage.duckdb_mirror import MirrorBusyError, is_current, refresh
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline.workspace import Workspace

EVERY_HOUR = "17 * * * *"


def automation(settings: DagsterSettings) -> tuple[list[dg.SensorDefinition], list[dg.ScheduleDefinition]]:
    """The sensors and schedules of an archive, all of them running from the first tick."""
    return [_episodes_sensor(settings), _publication_sensor(settings)], [_reconcile_schedule(), _reeval_schedule(settings)]


def _episodes_sensor(settings: DagsterSettings) -> dg.SensorDefinition:
    @dg.sensor(
        name="episodes",
        target=dg.AssetSelection.all(),
        minimum_interval_seconds=settings.sensor_interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Adds, derives again and removes episodes as their files do.",
    )
    def episodes(context: dg.SensorEvaluationContext, archive: ArchiveResource) -> dg.SensorResult:
        workspace, instance = archive.open(), context.instance
        idle_since = close_idle_runs(instance, workspace.warehouse, json.loads(context.cursor or "{}"), time.time())
        requests = _reconciled(workspace, instance)
        return dg.SensorResult(
            run_requests=None if isinstance(requests, dg.SkipReason) else requests,
            skip_reason=requests if isinstance(requests, dg.SkipReason) else None,
            cursor=json.dumps(idle_since),
        )

    return episodes


def _reconcile_schedule() -> dg.ScheduleDefinition:
    @dg.schedule(
        name="reconcile",
        target=dg.AssetSelection.all(),
        cron_schedule=EVERY_HOUR,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Does what the sensor does, should that have been switched off.",
    )
    def reconcile(context: dg.ScheduleEvaluationContext, archive: ArchiveResource) -> list[dg.RunRequest] | dg.SkipReason:
        return _reconciled(archive.open(), context.instance)

    return reconcile


def _reconciled(workspace: Workspace, instance: dg.DagsterInstance) -> list[dg.RunRequest] | dg.SkipReason:
    """Takes away what is gone, adds what is new, and asks for the runs that are due.

    While a `librarian run` is at work nothing is done: it does all this, and what changes meanwhile is found afterwards.
    """
    try:
        with FileLock(workspace.run_lock_path).acquire(blocking=False):
            close_dead_runs(instance, of_commands=True)
            workspace.tidy(prune=False)
            register_episodes(instance, set(workspace.archive.discover().episodes))
            at_work = runs_at_work(instance)
            requests = due_requests(workspace, at_work, instance)
            if not requests and not at_work:
                _refresh_mirror(workspace.warehouse)
    except Timeout:
        return dg.SkipReason("a run from the command line is at work")
    except UsageError as error:  # most files are gone: perhaps a disk isn't mounted
        return dg.SkipReason(str(error))
    return requests or dg.SkipReason(
        f"nothing to start; `librarian status --home {workspace.home}` tells what is out of date, and why"
    )


def _reeval_schedule(settings: DagsterSettings) -> dg.ScheduleDefinition:
    hour, minute = settings.reeval_at.split(":")

    @dg.schedule(
        name="nightly_reeval",
        target=dg.AssetSelection.assets("eval_scores"),
        cron_schedule=f"{int(minute)} {int(hour)} * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Measures the index anew, changed or not.",
    )
    def nightly_reeval(archive: ArchiveResource) -> dg.RunRequest | dg.SkipReason:
        if archive.open().warehouse.committed("eval_scores") is None:
            return dg.SkipReason("nothing has been measured yet")
        return dg.RunRequest(asset_selection=[dg.AssetKey("eval_scores")], tags={TRIGGER_TAG: "nightly"})

    return nightly_reeval


def _publication_sensor(settings: DagsterSettings) -> dg.SensorDefinition:
    @dg.sensor(
        name="reeval_after_publication",
        target=dg.AssetSelection.assets("eval_scores"),
        minimum_interval_seconds=settings.sensor_interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Measures the index anew when another snapshot is published, by a run or by a rollback.",
    )
    def reeval_after_publication(context: dg.SensorEvaluationContext, archive: ArchiveResource) -> dg.SensorResult:
        workspace = archive.open()
        published = workspace.snapshots.served_id()
        if published is None or published == context.cursor:
            return dg.SensorResult(skip_reason="nothing else has been published", cursor=context.cursor)
        if workspace.warehouse.committed("eval_scores") is None:
            return dg.SensorResult(skip_reason="nothing has been measured yet", cursor=context.cursor)
        if runs_at_work(context.instance):
            return dg.SensorResult(skip_reason="runs are at work: what they change is measured then", cursor=context.cursor)
        tags = {TRIGGER_TAG: "publication", SNAPSHOT_TAG: published}
        request = dg.RunRequest(asset_selection=[dg.AssetKey("eval_scores")], tags=tags)
        return dg.SensorResult(run_requests=[request], cursor=published)

    return reeval_after_publication


def _refresh_mirror(warehouse: Warehouse) -> None:
    """Catches up with what a run could not write, or has removed."""
    try:
        if warehouse.tables() and not is_current(warehouse):
            refresh(warehouse)
    except MirrorBusyError:
        pass  # somebody reads it: the next look catches up
