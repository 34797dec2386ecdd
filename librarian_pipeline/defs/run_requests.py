"""From what is out of date to runs for the daemon to start."""

import time
from collections.abc import Collection, Mapping

import dagster as dg

from librarian_pipeline.defs.instance import ONLY_IF_DUE
from librarian_pipeline.defs.running import RunAtWork
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.outdated import Verdict, World, verdicts
from librarian_pipeline.lineage.planning import Batch, Planner, Scope
from librarian_pipeline.storage.provenance import fingerprint
from librarian_pipeline.workspace import Workspace

ATTEMPT_TAG = "librarian/attempt"
"""Tells the same attempt again: the same steps, recipes and inputs."""
WHY_TAG = "librarian/why"
WHY_CHARACTERS = 200
MOST_AT_WORK = 20
"""Runs that are waiting or at work at a time; with thousands of episodes due, the queue would be all that one sees."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 60, 6 * 3600
"""After an attempt that failed, the same one is made again after a pause that doubles each time."""
_ENDED_BADLY = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def due_requests(workspace: Workspace, at_work: Collection[RunAtWork], instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    """The runs to start now, each with the reasons among its tags. No `librarian run` is at work meanwhile."""
    world = workspace.observe()
    found = verdicts(world)
    planner = Planner(Scope(), attempted={item for run in at_work for item in run.items})
    requests: list[dg.RunRequest] = []
    while len(at_work) + len(requests) < MOST_AT_WORK:
        batches = planner.next_round(found, world.episodes)
        # The archive's turn comes when the episodes' runs have ended: what they give is derived from then.
        if not batches or (batches[0].partition is None and (requests or any(run.partition for run in at_work))):
            break
        for batch in batches[: MOST_AT_WORK - len(at_work) - len(requests)]:
            planner.attempted.update(batch.items)
            attempt = _attempt(batch, world)
            if not _is_pausing(attempt, instance):
                requests.append(_request(batch, attempt, found))
    return requests


def _request(batch: Batch, attempt: str, found: Mapping[Item, Verdict]) -> dg.RunRequest:
    reasons = "; ".join(f"{item}: {', '.join(found[item].reasons)}" for item in batch.items)
    return dg.RunRequest(
        partition_key=batch.partition,
        asset_selection=[dg.AssetKey(asset) for asset in batch.assets],
        tags={**ONLY_IF_DUE, ATTEMPT_TAG: attempt, WHY_TAG: reasons[:WHY_CHARACTERS]},
    )


def _attempt(batch: Batch, world: World) -> str:
    return fingerprint({str(item): [dict(world.recipes[item]), world.inputs(item)] for item in batch.items})


def _is_pausing(attempt: str, instance: dg.DagsterInstance) -> bool:
    """Whether this very attempt failed not long ago."""
    records = instance.get_run_records(dg.RunsFilter(tags={ATTEMPT_TAG: attempt}), limit=20)  # the latest first
    failed = 0
    for record in records:
        if record.dagster_run.status not in _ENDED_BADLY:
            break
        failed += 1
    if not failed:
        return False
    pause_s: float = min(FIRST_PAUSE_S * 2.0 ** (failed - 1), LONGEST_PAUSE_S)
    return time.time() - (records[0].end_time or 0) < pause_s
