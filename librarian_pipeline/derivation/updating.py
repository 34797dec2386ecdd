"""Brings an archive up to date: derives what the planner finds to be due, round after round, until nothing is."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from librarian_pipeline.checks.blocking import blocking_reason
from librarian_pipeline.derivation.derive import derive
from librarian_pipeline.errors import DeferredError, LibrarianError
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.outdated import verdicts
from librarian_pipeline.lineage.planning import Batch, Planner
from librarian_pipeline.progress import Progress
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.workspace import Workspace


@dataclass
class Update:
    """What was done.

    `errors` holds what failed unexpectedly, with `traces`; files that can't be read are on record in the warehouse. `left`
    is what is due still: what failed, and what is derived from it. `deferred` tells, by episode, of files that are still
    being written, which the next run takes up.
    """

    derived: list[Item] = field(default_factory=list)
    errors: dict[Item, str] = field(default_factory=dict)
    traces: dict[Item, str] = field(default_factory=dict)
    left: list[Item] = field(default_factory=list)
    deferred: dict[str, str] = field(default_factory=dict)


RunBatch = Callable[[Batch, Update], set[Item]]
"""Derives a batch, adds what came of it to the update, and returns the items that it worked on, well or not."""


def bring_up_to_date(
    workspace: Workspace,
    planner: Planner,
    progress: Progress,
    run_batch: RunBatch,
    on_episodes: Callable[[set[str]], None] = lambda ids: None,
) -> Update:
    """The caller keeps other runs of the same kind away. `on_episodes` hears of the archive's episodes before a round."""
    update = Update()
    while True:
        discovery = workspace.archive.discover()
        on_episodes(set(discovery.episodes))
        world = workspace.observe(discovery)
        found = verdicts(world)
        batches = planner.next_round(found, world.episodes)
        if not batches:
            update.left = [item for item, verdict in found.items() if verdict.due and planner.scope.holds(item)]
            return update
        for done, batch in enumerate(batches):
            if batch.partition is not None:
                progress.report("overall", "", done, len(batches), "episodes")
            # Steps that were skipped, since one before them failed, may be due yet: from what that one gave earlier.
            planner.attempted.update(run_batch(batch, update) or batch.items)


def in_this_process(
    workspace: Workspace,
    progress: Progress,
    *,
    reuse: bool = True,
    adopt: Callable[[Item], Provenance | None] = lambda item: None,
) -> RunBatch:
    """Derives the steps of a batch one after the other, without Dagster.

    What `adopt` finds an equal output for elsewhere, it takes over and returns the record of; that isn't derived.
    """

    def run_batch(batch: Batch, update: Update) -> set[Item]:
        worked_on: set[Item] = set()
        for item in batch.items:
            worked_on.add(item)
            try:
                record = adopt(item)
                if record is None:
                    record = derive(workspace, item, progress, reuse=reuse).record
                    update.derived.append(item)
            except DeferredError as error:
                update.deferred[str(item.partition)] = str(error)
                break
            except LibrarianError as error:
                if workspace.warehouse.failure(item.asset, item.partition) is None:
                    update.errors[item] = str(error)
                break
            except Exception as error:
                update.errors[item] = f"{type(error).__name__}: {error}"
                update.traces[item] = traceback.format_exc()
                break
            if blocking_reason(record.measures, workspace.settings.checks):
                break
        return worked_on

    return run_batch
