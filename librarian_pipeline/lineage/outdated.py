"""What is out of date, and why: a pure function of recipes, sources and stored provenance.

It looks at levels, not at events: whatever happened, and whoever was not watching, the answer is the difference between what
is there now and what each output says it was made from.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from librarian_pipeline.lineage.graph import Item, items, upstream_items
from librarian_pipeline.storage.provenance import Provenance, Recipe, fingerprint
from librarian_pipeline.storage.warehouse import Failure


class State(StrEnum):
    FRESH = "fresh"
    MISSING = "missing"
    STALE = "stale"
    WAITING = "waiting"
    """Something upstream is to be derived first; its output may come out equal, and then nothing is to do."""
    BLOCKED = "blocked"
    """A check of what it is derived from forbids it, or there is nothing to derive it from for that reason."""
    FAILED = "failed"
    """These inputs failed before and would fail again; the earlier output, if there is one, is kept."""
    DEPARTED = "departed"
    """Its episode's files are gone, and the next run removes it."""


@dataclass(frozen=True)
class World:
    """All that the verdicts depend on, observed at one moment.

    `sources` holds, for each item, the content hashes and values that it takes from the archive's files directly.
    """

    episodes: tuple[str, ...]
    recipes: Mapping[Item, Recipe]
    sources: Mapping[Item, Mapping[str, str]]
    stored: Mapping[Item, Provenance]
    failures: Mapping[Item, Failure]
    blocks: Mapping[Item, str] = field(default_factory=dict)
    """Outputs from which nothing may be derived, and why."""

    def inputs(self, item: Item) -> dict[str, str]:
        """What `item` would be derived from now: sources, and the versions of the upstream outputs that exist."""
        upstream = {
            str(other): self.stored[other].version for other in upstream_items(item, self.episodes) if other in self.stored
        }
        return {**self.sources.get(item, {}), **upstream}


@dataclass(frozen=True)
class Verdict:
    state: State
    reasons: tuple[str, ...] = ()

    @property
    def settled(self) -> bool:
        """Nothing is to be derived here."""
        return self.state in (State.FRESH, State.FAILED, State.BLOCKED)

    @property
    def due(self) -> bool:
        """To be derived, whatever comes out upstream."""
        return self.state in (State.MISSING, State.STALE)


def verdicts(world: World) -> dict[Item, Verdict]:
    """The verdict on every item, in an order in which each comes after all that it is derived from."""
    found: dict[Item, Verdict] = {}
    for item in items(world.episodes):
        waits_for = [other for other in upstream_items(item, world.episodes) if not found[other].settled]
        blocked = None if waits_for else _blocked(item, world, found)
        found[item] = blocked or _judge(item, world, waits_for)
    return found


def verdict_of(item: Item, world: World) -> Verdict:
    """The verdict on one item, taking what it is derived from as it is, whatever may be to do there."""
    return _judge(item, world, waits_for=[])


def _blocked(item: Item, world: World, found: Mapping[Item, Verdict]) -> Verdict | None:
    """Of an episode's items. The archive's assets go on with what there is of the others."""
    if item.partition is None:
        return None
    for other in upstream_items(item, world.episodes):
        if other in world.blocks:
            return Verdict(State.BLOCKED, (f"{other}: {world.blocks[other]}",))
        if found[other].state is State.BLOCKED and other not in world.stored:
            return found[other]
    return None


def _judge(item: Item, world: World, waits_for: list[Item]) -> Verdict:
    inputs, recipe, failure = world.inputs(item), world.recipes[item], world.failures.get(item)
    if failure and not waits_for and failure.recipe_fingerprint == fingerprint(recipe) and failure.inputs == inputs:
        return Verdict(State.FAILED, (failure.line,))
    stored = world.stored.get(item)
    if stored is None:
        return Verdict(State.MISSING, ("never derived",))
    reasons = (*recipe_changes(stored.recipe, recipe), *_input_changes(stored.inputs, inputs))
    if reasons:
        return Verdict(State.STALE, reasons)
    if waits_for:
        return Verdict(State.WAITING, (f"waits for {_shortened(waits_for)}",))
    return Verdict(State.FRESH)


def recipe_changes(before: Recipe, now: Recipe) -> tuple[str, ...]:
    """A reason for each part of the recipe that is not what it was."""
    return tuple(
        f"recipe: {key} {_shown(before, key)} -> {_shown(now, key)}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    )


def _shown(recipe: Recipe, key: str) -> str:
    """A value, digests as short as they can be told apart."""
    value = str(recipe.get(key, "none"))
    return value[:12] if len(value) == 64 and " " not in value else value


def _input_changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    changed = [f"{key} changed" for key in sorted(before.keys() & now.keys()) if before[key] != now[key]]
    added = [f"{key} is new" for key in sorted(now.keys() - before.keys())]
    gone = [f"{key} is gone" for key in sorted(before.keys() - now.keys())]
    return (*changed, *added, *gone)


def _shortened(waits_for: Iterable[Item]) -> str:
    names = [str(item) for item in waits_for]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
