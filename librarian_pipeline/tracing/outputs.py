"""The outputs that a result came from: each with its data version, its recipe, and whether it is still current."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from librarian_pipeline.lineage.graph import NODES, Item, items
from librarian_pipeline.tracing.observing import Observed


@dataclass(frozen=True)
class InputTrace:
    """What an output was derived from, and whether that is what is there now."""

    name: str
    version: str
    is_current: bool


@dataclass(frozen=True)
class OutputTrace:
    """A stored output; without `version`, `recipe_fingerprint` and `rows` where it was never derived.

    `version` is the data version that Dagster shows too. Of the inputs of an output of the whole archive, those on the way
    are listed, and `n_other_inputs` counts the rest. `state` and `reasons` are those of `librarian status`.
    """

    item: str
    version: str | None
    recipe_fingerprint: str | None
    recipe: Mapping[str, Any]
    rows: int | None
    inputs: tuple[InputTrace, ...]
    n_other_inputs: int
    state: str
    reasons: tuple[str, ...]


INDEXES = ("bm25_raw_index", "bm25_stem_index", "vector_index")


def items_behind(episodes: Iterable[str], assets: Iterable[str]) -> list[Item]:
    """The items that these assets are derived from, themselves included, of these episodes and of the archive as a whole."""
    wanted = set(assets)
    for node in reversed(NODES.values()):  # each stands after all that it is derived from
        if node.name in wanted:
            wanted.update(node.upstream)
    return [item for item in items(sorted(set(episodes))) if item.asset in wanted]


def trace_outputs(observed: Observed, way: Iterable[Item]) -> tuple[OutputTrace, ...]:
    listed = list(way)
    return tuple(_trace_output(observed, item, {str(other) for other in listed}) for item in listed)


def _trace_output(observed: Observed, item: Item, way: set[str]) -> OutputTrace:
    record, verdict = observed.record(item), observed.verdict(item)
    if record is None:
        return OutputTrace(str(item), None, None, {}, None, (), 0, verdict.state, verdict.reasons)
    now = observed.world.inputs(item)
    inputs = tuple(
        InputTrace(name, version, now.get(name) == version)
        for name, version in record.inputs.items()
        if name in way or not name.endswith("]")
    )
    return OutputTrace(
        item=str(item),
        version=record.version,
        recipe_fingerprint=record.recipe_fingerprint,
        recipe=record.recipe,
        rows=record.rows,
        inputs=inputs,
        n_other_inputs=len(record.inputs) - len(inputs),
        state=verdict.state,
        reasons=verdict.reasons,
    )
