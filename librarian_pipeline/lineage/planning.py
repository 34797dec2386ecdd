"""From verdicts to work: which steps can be run now, grouped into runs of one episode, or of the archive as a whole."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from librarian_pipeline.lineage.graph import ARCHIVE_ASSETS, EPISODE_ASSETS, Item, upstream_items
from librarian_pipeline.lineage.outdated import State, Verdict


@dataclass(frozen=True)
class Batch:
    """Assets to derive in one run: of one episode, or, without a partition, of the archive as a whole."""

    partition: str | None
    assets: tuple[str, ...]

    @property
    def items(self) -> list[Item]:
        return [Item(asset, self.partition) for asset in self.assets]


@dataclass(frozen=True)
class Scope:
    """What a person asked for: some episodes only, or everything anew whatever its state."""

    episodes: frozenset[str] | None = None
    full: bool = False

    def holds(self, item: Item) -> bool:
        return self.episodes is None or item.partition is None or item.partition in self.episodes


@dataclass
class Planner:
    """Plans round after round. Each item is attempted at most once, so that a failing step can't be tried forever."""

    scope: Scope
    attempted: set[Item] = field(default_factory=set)

    def next_round(self, verdicts: Mapping[Item, Verdict], episodes: Sequence[str]) -> list[Batch]:
        """The runs that can be started from here; none when all is done that can be done.

        An episode's run takes in what is derived from its own steps only where that is due whatever comes out of them: what
        merely waits may turn out not to be due at all.
        """
        batches = [self._batch(EPISODE_ASSETS, episode, verdicts, episodes) for episode in episodes]
        if any(batch.assets for batch in batches):
            return [batch for batch in batches if batch.assets]
        whole = self._batch(ARCHIVE_ASSETS, None, verdicts, episodes)
        return [whole] if whole.assets else []

    def _batch(
        self, assets: Sequence[str], partition: str | None, verdicts: Mapping[Item, Verdict], episodes: Sequence[str]
    ) -> Batch:
        chosen: list[Item] = []
        for asset in assets:
            item = Item(asset, partition)
            if self._is_due(item, verdicts[item]) and self._is_ready(item, verdicts, episodes, chosen):
                chosen.append(item)
        return Batch(partition, tuple(item.asset for item in chosen))

    def _is_due(self, item: Item, verdict: Verdict) -> bool:
        return self.scope.holds(item) and item not in self.attempted and (verdict.due or self.scope.full)

    def _is_ready(
        self, item: Item, verdicts: Mapping[Item, Verdict], episodes: Sequence[str], chosen: Collection[Item]
    ) -> bool:
        return all(
            other in chosen or self._is_done_with(other, item, verdicts, episodes)
            for other in upstream_items(item, episodes)
        )

    def _is_done_with(self, other: Item, item: Item, verdicts: Mapping[Item, Verdict], episodes: Sequence[str]) -> bool:
        """Whether nothing more is to come, in this update, of what `item` is derived from.

        The archive's turn comes when no episode's step can be run any more. What is left of one then failed, comes after
        one that did, or was not asked for; that keeps neither the archive's indexes from the other episodes, nor the scores
        from indexes that wait for nothing else.
        """
        if verdicts[other].settled or (item.partition is None and other.partition is not None):
            return True
        waits = other.partition is None and verdicts[other].state is State.WAITING
        return waits and all(
            self._is_done_with(above, other, verdicts, episodes) for above in upstream_items(other, episodes)
        )
