"""Brings an archive up to date: runs, through Dagster, what the planner finds to be due."""

from dataclasses import dataclass, field

import dagster as dg
from dagster_shared.error import SerializableErrorInfo

from librarian_pipeline.definitions import definitions_for
from librarian_pipeline.defs.instance import COMMAND_TAG, close_dead_runs, open_instance
from librarian_pipeline.defs.partitions import register_episodes
from librarian_pipeline.defs.step import DEFERRED
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.outdated import verdicts
from librarian_pipeline.lineage.planning import Batch, Planner
from librarian_pipeline.progress import Progress
from librarian_pipeline.workspace import Workspace

# The name of the error that Dagster makes of a blocking check that failed; the class is not public.
BLOCKED_BY_CHECK = "DagsterAssetCheckFailedError"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass
class Outcome:
    """What a run did.

    `errors` holds what failed unexpectedly, with `traces`; files that can't be read are on record in the warehouse. `left`
    is what is due still: what failed, and what is derived from it. `deferred` tells, by episode, of files that are still
    being written, which the next run takes up.
    """

    derived: list[Item] = field(default_factory=list)
    errors: dict[Item, str] = field(default_factory=dict)
    traces: dict[Item, str] = field(default_factory=dict)
    left: list[Item] = field(default_factory=list)
    deferred: dict[str, str] = field(default_factory=dict)


def bring_up_to_date(workspace: Workspace, planner: Planner, progress: Progress) -> Outcome:
    """Derives what is due, round after round, until nothing is. The caller holds the archive's run lock."""
    outcome = Outcome()
    with open_instance(workspace.archive.dagster_home_dir) as instance:
        close_dead_runs(instance)
        job = definitions_for(workspace.home, progress).resolve_implicit_global_asset_job_def()
        while True:
            discovery = workspace.archive.discover()
            register_episodes(instance, set(discovery.episodes))
            world = workspace.observe(discovery)
            found = verdicts(world)
            batches = planner.next_round(found, world.episodes)
            if not batches:
                outcome.left = [item for item, verdict in found.items() if verdict.due and planner.scope.holds(item)]
                return outcome
            for done, batch in enumerate(batches):
                if batch.partition is not None:
                    progress.report("overall", "", done, len(batches), "episodes")
                result = job.execute_in_process(
                    instance=instance,
                    partition_key=batch.partition,
                    asset_selection=[dg.AssetKey(asset) for asset in batch.assets],
                    tags=COMMAND_TAG,
                    run_config=QUIET,
                    raise_on_error=False,
                )
                ran = _note(batch, result, workspace, outcome)
                # Steps that were skipped, since one before them failed, may be due yet: from what that one gave earlier.
                planner.attempted.update(ran or batch.items)


def _note(batch: Batch, result: dg.ExecuteInProcessResult, workspace: Workspace, outcome: Outcome) -> set[Item]:
    """Adds what a run did to the outcome, and returns the items that it worked on, well or not."""
    materialized = [event.step_materialization_data.materialization for event in result.get_asset_materialization_events()]
    derived = [Item(found.asset_key.to_user_string(), batch.partition) for found in materialized]
    outcome.derived.extend(derived)
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
            outcome.deferred[str(item.partition)] = described.description or DEFERRED
            continue
        if workspace.warehouse.failure(item.asset, item.partition) is None:
            outcome.errors[item] = (described.description if described else None) or _first_cause(failure.error)
            outcome.traces[item] = failure.error.to_string() if failure.error else ""
    return {*derived, *failed}


def _first_cause(error: SerializableErrorInfo | None) -> str:
    """The message of the exception that started it all, in one line."""
    if error is None:
        return "failed without saying why"
    while error.cause is not None:
        error = error.cause
    return " ".join(error.message.split())
