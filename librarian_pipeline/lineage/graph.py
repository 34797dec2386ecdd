"""The assets and what each is derived from: the one description that the planner and Dagster's definitions share."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class AssetNode:
    """An asset. `per_episode` marks one with a partition for each episode; the others are derived from all of them."""

    name: str
    group: str
    per_episode: bool
    upstream: tuple[str, ...] = ()


ASSETS = (
    AssetNode("audio", "archive", per_episode=True),
    AssetNode("notes", "archive", per_episode=True),
    AssetNode("transcripts", "speech", per_episode=True, upstream=("audio",)),
    AssetNode("chunks", "passages", per_episode=True, upstream=("transcripts", "notes")),
    AssetNode("embeddings", "indexes", per_episode=True, upstream=("chunks",)),
    AssetNode("episodes", "archive", per_episode=False, upstream=("audio", "notes", "transcripts", "chunks", "embeddings")),
    AssetNode("bm25_raw_index", "indexes", per_episode=False, upstream=("chunks",)),
    AssetNode("bm25_stem_index", "indexes", per_episode=False, upstream=("chunks",)),
    AssetNode("vector_index", "indexes", per_episode=False, upstream=("embeddings",)),
    AssetNode("gold_set", "evaluation", per_episode=False),
    AssetNode(
        "eval_scores",
        "evaluation",
        per_episode=False,
        upstream=("transcripts", "chunks", "bm25_raw_index", "bm25_stem_index", "vector_index", "gold_set"),
    ),
    AssetNode(
        "published_index",
        "publication",
        per_episode=False,
        upstream=(
            "transcripts",
            "chunks",
            "episodes",
            "bm25_raw_index",
            "bm25_stem_index",
            "vector_index",
            "gold_set",
            "eval_scores",
        ),
    ),
)
"""In an order in which each comes after all that it is derived from."""

NODES = {node.name: node for node in ASSETS}
EPISODE_ASSETS = tuple(node.name for node in ASSETS if node.per_episode)
ARCHIVE_ASSETS = tuple(node.name for node in ASSETS if not node.per_episode)


@dataclass(frozen=True, order=True)
class Item:
    """One thing that is derived: an asset, or one partition of it."""

    asset: str
    partition: str | None = None

    def __str__(self) -> str:
        return f"{self.asset}[{self.partition}]" if self.partition is not None else self.asset


def items(episodes: Iterable[str]) -> list[Item]:
    """Everything that is derived from these episodes, each after all that it is derived from."""
    ids = list(episodes)
    return [Item(node.name, partition) for node in ASSETS for partition in (ids if node.per_episode else [None])]


def upstream_items(item: Item, episodes: Iterable[str]) -> list[Item]:
    """What `item` is derived from, sources aside."""
    found = []
    for name in NODES[item.asset].upstream:
        if not NODES[name].per_episode:
            found.append(Item(name))
        elif item.partition is not None:
            found.append(Item(name, item.partition))
        else:
            found.extend(Item(name, episode) for episode in episodes)
    return found
