"""Derives candidates side by side, each in a folder of its own, and none of them in the archive's warehouse.

A candidate begins with all that the archive has, as hard links, and is brought up to date like the archive itself: so it
comes to what a run with its settings would come to, and only what depends on its changes is derived. Of that, what another
candidate has an equal output for is taken over. Files are only ever replaced, so that a link can't change under anyone.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from librarian_pipeline.comparison.candidates import Candidate
from librarian_pipeline.derivation.updating import Update, bring_up_to_date, in_this_process
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.outdated import State, World, verdict_of
from librarian_pipeline.lineage.planning import Planner, Scope
from librarian_pipeline.progress import Progress
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline.workspace import Workspace

FOLDER = ".candidates"
MEASURED_OVER = ("gold_set", "bm25_raw_index", "bm25_stem_index", "vector_index", "eval_scores")


@dataclass(frozen=True)
class DerivedCandidate:
    """A candidate, brought up to date in `workspace`. `problems` says what could not be derived."""

    candidate: Candidate
    workspace: Workspace
    update: Update
    problems: tuple[str, ...]
    n_outputs: int
    is_measured: bool
    """Whether its figures are those of its settings: all that they rest on could be derived."""

    @property
    def derived(self) -> dict[str, int]:
        """How many outputs of each asset were derived for it; all others are shared."""
        counts: dict[str, int] = {}
        for item in self.update.derived:
            counts[item.asset] = counts.get(item.asset, 0) + 1
        return counts

    @property
    def n_shared(self) -> int:
        return self.n_outputs - len(set(self.update.derived))


class Workbench:
    """Where the candidates of one comparison are derived. What the comparison before this one left is taken over from."""

    def __init__(self, workspace: Workspace) -> None:
        """The caller holds the lock that keeps other comparisons away."""
        self._archive = workspace
        self._current = workspace.warehouse.root / FOLDER / "current"
        self._earlier = workspace.warehouse.root / FOLDER / "earlier"
        self.clear_earlier()
        if self._current.exists():
            self._current.rename(self._earlier)
        self._donors = [self._warehouse(path) for path in sorted(self._earlier.glob("*"))]

    def _warehouse(self, root: Path) -> Warehouse:
        return Warehouse(root, self._archive.warehouse.cache_dir)

    def open(self, candidate: Candidate) -> Workspace:
        """The candidate with what the archive has."""
        warehouse = self._archive.warehouse.fork(self._current / candidate.fingerprint)
        workspace = Workspace(self._archive.home, candidate.settings, warehouse)
        workspace.tidy(prune=False)
        return workspace

    def derive(self, candidate: Candidate, workspace: Workspace, progress: Progress) -> DerivedCandidate:
        """Brings the candidate up to date; those after it may take over what was derived for it."""

        def adopt(item: Item) -> Provenance | None:
            return _adopted(workspace, item, self._donors)

        run_batch = in_this_process(workspace, progress, adopt=adopt)
        update = bring_up_to_date(workspace, Planner(Scope()), progress, run_batch)
        self._donors.insert(0, workspace.warehouse)
        world = workspace.observe()
        return DerivedCandidate(
            candidate,
            workspace,
            update,
            problems=tuple(_problems(workspace, world, update)),
            n_outputs=len(world.stored),
            is_measured=all(verdict_of(Item(name), world).state is State.FRESH for name in MEASURED_OVER),
        )

    def clear_earlier(self) -> None:
        """Once the candidates of this comparison hold all that they share with the one before."""
        if self._earlier.exists():
            shutil.rmtree(self._earlier)


def _adopted(workspace: Workspace, item: Item, donors: Sequence[Warehouse]) -> Provenance | None:
    """The item's output as one of the donors has it, if there it would be up to date."""
    world = workspace.observe_item(item, workspace.archive.discover(only=item.partition))
    for donor in donors:
        record = donor.committed(item.asset, item.partition)
        if record is None:
            continue
        there = replace(world, stored={**world.stored, item: record}, failures={})
        if verdict_of(item, there).state is State.FRESH:
            return workspace.warehouse.adopt(donor, item.asset, item.partition)
    return None


def _problems(workspace: Workspace, world: World, update: Update) -> list[str]:
    """A line for each file that couldn't be read, each output that nothing may be derived from, and each error."""
    found = [f"{item}: {failure.line}" for item, failure in workspace.failures(world.episodes).items()]
    # Gates keep an index from being published, not from being compared.
    found += [f"{item}: {reason}" for item, reason in world.blocks.items() if item != Item("eval_scores")]
    found += [f"{item}: {error}" for item, error in update.errors.items()]
    found += [f"{item}: could not be derived" for item in update.left if not found and not update.deferred]
    return found


def files_of(workspace: Workspace) -> dict[str, dict[str, str]]:
    """The archive's files that candidates are derived from, by their content."""
    world = workspace.observe()
    return {str(item): dict(sources) for item, sources in world.sources.items() if item.asset != "episodes"}
