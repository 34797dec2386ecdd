"""Runs batches through Dagster, in this process: each becomes a run that the UI shows."""

from collections.abc import Mapping

import dagster as dg
from dagster_shared.error import SerializableErrorInfo

from librarian_pipeline.definitions import definitions_for
from librarian_pipeline.defs.declaration import DEFERRED, IS_NEW
from librarian_pipeline.defs.instance import COMMAND_TAG, FULL_TAG, ONLY_IF_DUE, open_instance
from librarian_pipeline.defs.partitions import register_episodes
from librarian_pipeline.defs.running import close_dead_runs
from librarian_pipeline.derivation.updating import RunBatch, Update, bring_up_to_date
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.planning import Batch, Planner
from librarian_pipeline.progress import Progress
from librarian_pipeline.workspace import Workspace

# The name of the error that Dagster makes of a blocking check that failed; the class is not public.
BLOCKED_BY_CHECK = "DagsterAssetCheckFailedError"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def update_through_dagster(workspace: Workspace, planner: Planner, progress: Progress) -> Update:
    """Derives what is due. The caller holds the archive's run lock."""
    tags = {**COMMAND_TAG, **(FULL_TAG if planner.scope.full else ONLY_IF_DUE)}
    with open_instance(workspace.archive.dagster_home_dir, workspace.settings.dagster) as instance:
        close_dead_runs(instance, of_commands=True)
        run_batch = _in_dagster(workspace, instance, progress, tags)
        return bring_up_to_date(workspace, planner, progress, run_batch, lambda ids: register_episodes(instance, ids))


def _in_dagster(workspace: Workspace, instance: dg.DagsterInstance, progress: Progress, tags: Mapping[str, str]) -> RunBatch:
    job = definitions_for(workspace.home, progress).resolve_implicit_global_asset_job_def()

    def run_batch(batch: Batch, update: Update) -> set[Item]:
        result = job.execute_in_process(
            instance=instance,
            partition_key=batch.partition,
            asset_selection=[dg.AssetKey(asset) for asset in batch.assets],
            tags=tags,
            run_config=QUIET,
            raise_on_error=False,
        )
        return _note(batch, result, workspace, update)

    return run_batch


def _note(batch: Batch, result: dg.ExecuteInProcessResult, workspace: Workspace, update: Update) -> set[Item]:
    """Adds what a run did to the update, and returns the items that it worked on, well or not."""
    materialized = [event.step_materialization_data.materialization for event in result.get_asset_materialization_events()]
    worked_on = {Item(found.asset_key.to_user_string(), batch.partition): found for found in materialized}
    update.derived.extend(item for item, found in worked_on.items() if found.metadata[IS_NEW].value)
    failed = []
    for event in result.filter_events(lambda event: event.is_step_failure):
        item = Item(str(event.step_key), batch.partition)
        failure = event.step_failure_data
        if failure.error and failure.error.cls_name == dg.DagsterExecutionInterruptedError.__name__:
            # Dagster turns Ctrl-C into a failed step. Nothing of it was stored, and nothing more is to be started.
            raise KeyboardInterrupt
        failed.append(item)
        if failure.error and failure.error.cls_name == BLOCKED_BY_CHECK:
            continue  # stored, but blocked: the catalogue's findings tell why
        described = failure.user_failure_data
        if described and DEFERRED in described.metadata:
            update.deferred[str(item.partition)] = described.description or DEFERRED
            continue
        if workspace.warehouse.failure(item.asset, item.partition) is None:
            update.errors[item] = (described.description if described else None) or _first_cause(failure.error)
            update.traces[item] = failure.error.to_string() if failure.error else ""
    return {*worked_on, *failed}


def _first_cause(error: SerializableErrorInfo | None) -> str:
    """The message of the exception that started it all, in one line."""
    if error is None:
        return "failed without saying why"
    while error.cause is not None:
        error = error.cause
    return " ".join(error.message.split())
