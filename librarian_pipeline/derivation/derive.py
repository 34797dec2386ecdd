"""Derives one item: the body of its step, run once at a time, and recorded with what went into it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from filelock import FileLock

from librarian_pipeline.checks import Outcome
from librarian_pipeline.derivation import archive, evaluation, indexes, passages, speech
from librarian_pipeline.derivation.checking import outcomes_of
from librarian_pipeline.derivation.step import Output, Step
from librarian_pipeline.errors import DeferredError, SourceError
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.outdated import State
from librarian_pipeline.progress import Progress
from librarian_pipeline.storage import duckdb_mirror
from librarian_pipeline.storage.provenance import Provenance, fingerprint
from librarian_pipeline.storage.warehouse import Failure, Warehouse
from librarian_pipeline.workspace import Workspace

BODIES: Mapping[str, Callable[[Step], Output]] = {
    body.__name__: body
    for body in (
        archive.audio,
        archive.notes,
        archive.episodes,
        speech.transcripts,
        passages.chunks,
        indexes.embeddings,
        indexes.vector_index,
        indexes.bm25_raw_index,
        indexes.bm25_stem_index,
        evaluation.gold_set,
        evaluation.eval_scores,
    )
}
"""What derives each asset, by its name."""

ATTEMPTS = 3
"""How often a step starts anew because what it reads was replaced, by another process, while it was at work."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Derived:
    """An item's output. `is_new` is False where another process had derived it meanwhile, and nothing was left to do."""

    record: Provenance
    is_new: bool
    columns: pa.Schema
    facts: Mapping[str, Any] = field(default_factory=dict)
    outcomes: Sequence[Outcome] = ()


def derive(
    workspace: Workspace,
    item: Item,
    progress: Progress,
    *,
    only_if_due: bool = False,
    reuse: bool = True,
    mirror: bool = False,
) -> Derived:
    """Derives the item and stores what comes of it. Other processes that want the same item wait meanwhile.

    With `only_if_due`, nothing is done where the item is not out of date. Without `reuse`, nothing is taken from a cache.
    `mirror` brings the output's tables in DuckDB up to date as well: who derives many does that once, at the end.
    Raises `LibrarianError`: a `SourceError` is put on record, so that it isn't tried again until the file changes.
    """
    with item_lock(workspace.warehouse, item):
        for attempts_left in reversed(range(ATTEMPTS)):
            step = Step(workspace, item, progress, reuse=reuse)
            if only_if_due and not step.verdict.due:
                return _as_stored(step)
            try:
                return _derive(step, mirror=mirror)
            except DeferredError:
                raise
            except Exception as error:
                if attempts_left and step.inputs_changed():
                    _log.info("%s starts anew: what it reads was replaced meanwhile", item)
                    continue
                if isinstance(error, SourceError):
                    _record(step, error)
                raise
    raise AssertionError("the last attempt returns or raises")


def _derive(step: Step, *, mirror: bool) -> Derived:
    # Of an earlier attempt: whatever becomes of this one, that is not what happened to it.
    step.warehouse.clear_failure(step.item.asset, step.item.partition)
    output = BODIES[step.item.asset](step)
    outcomes = outcomes_of(step, output.table, output.beside)
    record = step.store(output, outcomes)
    if mirror:
        _mirror(step, [step.item.asset, *output.beside])
    return Derived(record, True, output.table.schema, output.facts, outcomes)


def _as_stored(step: Step) -> Derived:
    record, partition = step.stored, step.item.partition
    failure = step.warehouse.failure(step.item.asset, partition)
    if record is None or step.verdict.state is State.FAILED:
        assert failure is not None  # else it would be due
        raise SourceError(failure.message, failure.fix)
    beside = {name: step.warehouse.read(name, partition) for name in record.beside}
    table = step.warehouse.read(step.item.asset, partition)
    return Derived(record, False, table.schema.remove_metadata(), outcomes=outcomes_of(step, table, beside))


def _record(step: Step, error: SourceError) -> None:
    failure = Failure(fingerprint(step.recipe), step.inputs, error.message, error.fix)
    step.warehouse.record_failure(step.item.asset, step.item.partition, failure)


def _mirror(step: Step, tables: list[str]) -> None:
    try:
        duckdb_mirror.refresh_partitions(step.warehouse, tables, step.item.partition)
    except duckdb_mirror.MirrorBusyError as error:
        _log.warning("%s: its tables are brought up to date by the next run", error)


def item_lock(warehouse: Warehouse, item: Item) -> FileLock:
    """Held by the process that derives the item. The system lets go of it when that process ends, however it ends."""
    folder = warehouse.root / ".locks"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{item}.lock")
