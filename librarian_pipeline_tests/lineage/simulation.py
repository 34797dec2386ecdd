"""An archive without files: recipes, sources and outputs as plain values, derived by the rules of the real steps."""

import json
from collections.abc import Callable

from librarian_pipeline.lineage.graph import Item, items, upstream_items
from librarian_pipeline.lineage.outdated import State, Verdict, World, verdicts
from librarian_pipeline.storage.provenance import Provenance, fingerprint
from librarian_pipeline.storage.warehouse import Failure

FROM_FILES = ("audio", "notes", "transcripts", "gold_set", "episodes")


class Simulation:
    def __init__(self, episodes: tuple[str, ...]) -> None:
        self.episodes = episodes
        self.recipes: dict[Item, dict[str, object]] = {item: {"code": 1} for item in items(episodes)}
        self.sources = {item: {"file": "v1"} for item in items(episodes) if item.asset in FROM_FILES}
        self.stored: dict[Item, Provenance] = {}
        self.failures: dict[Item, Failure] = {}
        self.derived: list[Item] = []

    @property
    def items(self) -> list[Item]:
        return items(self.episodes)

    @property
    def world(self) -> World:
        return World(self.episodes, self.recipes, self.sources, self.stored, self.failures)

    @property
    def verdicts(self) -> dict[Item, Verdict]:
        return verdicts(self.world)

    def states(self) -> dict[Item, State]:
        return {item: verdict.state for item, verdict in self.verdicts.items()}

    def derive(self, item: Item, content: str | None = None) -> None:
        inputs = self.world.inputs(item)
        made = content or fingerprint({"recipe": json.dumps(self.recipes[item]), **inputs})
        self.stored[item] = Provenance(item.asset, item.partition, dict(self.recipes[item]), inputs, made, 1)
        self.failures.pop(item, None)
        self.derived.append(item)

    def fail(self, item: Item) -> None:
        inputs = self.world.inputs(item)
        self.failures[item] = Failure(fingerprint(self.recipes[item]), inputs, f"{item} is broken", "mend it")

    def derive_all(self, content: Callable[[Item], str | None] = lambda item: None) -> "Simulation":
        """Derives what is due until nothing is, each item after all that it is derived from."""
        for item in self.items:
            if self.verdicts[item].due:
                self.derive(item, content(item))
        return self

    def dependants(self, item: Item) -> set[Item]:
        """Everything that is derived from `item`, directly or not."""
        found: set[Item] = set()
        for other in self.items:
            if found.union({item}).intersection(upstream_items(other, self.episodes)):
                found.add(other)
        return found

    def change(self, item: Item, what: str) -> None:
        if what == "recipe":
            self.recipes[item] = {**self.recipes[item], "code": 2}
        else:
            self.sources[item] = {**self.sources.get(item, {}), "file": "v2"}
