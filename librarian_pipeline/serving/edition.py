"""One published snapshot, opened for reading: what every search, page and answer takes its passages from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from librarian_pipeline.errors import UsageError
from librarian_pipeline.retrieval.citations import Citation, Citer
from librarian_pipeline.retrieval.embedders.shelf import EmbedderShelf
from librarian_pipeline.retrieval.indexing import load_searcher
from librarian_pipeline.retrieval.modes import Hit, Passage, Searcher
from librarian_pipeline.retrieval.search_settings import searched_with
from librarian_pipeline.serving.kept import KeptTables
from librarian_pipeline.storage.snapshot import Snapshot
from librarian_pipeline.workspace import Workspace


@dataclass(frozen=True)
class CitedHit:
    """A passage at its rank, with the place in the archive that it is cited by as an answer to the query."""

    hit: Hit
    citation: Citation

    @property
    def passage(self) -> Passage:
        return self.hit.passage


@dataclass(frozen=True)
class Edition:
    """For any number of threads. All that it needs is in memory: it outlives the snapshot's files.

    `episodes` are the rows of the catalogue (`schemas.EPISODES`) by their ids, in their order. `warning` says what is wrong
    with the snapshot that should be served in its place; None if this is the one.
    """

    snapshot: Snapshot
    searcher: Searcher
    citer: Citer
    episodes: Mapping[str, dict[str, Any]]
    warning: str | None = None

    @classmethod
    def open(cls, snapshot: Snapshot, workspace: Workspace, shelf: EmbedderShelf) -> "Edition":
        """Searched with the settings that it was measured with.

        Raises `UsageError` if this program can't read it, and `SnapshotError` or `OSError` if its files went meanwhile.
        """
        settings = searched_with(workspace.settings, snapshot.manifest.search)
        searcher = load_searcher(snapshot.tables, settings, shelf.get)
        citer = Citer(KeptTables.of(snapshot, "transcripts"), searcher)
        episodes = {row["episode_id"]: row for row in snapshot.tables.read("episodes").to_pylist()}
        return cls(snapshot, searcher, citer, episodes)

    def with_warning(self, warning: str | None) -> "Edition":
        return replace(self, warning=warning)

    @property
    def id(self) -> str:
        return self.snapshot.id

    def search(self, query: str, mode: str | None = None, k: int = 5) -> list[CitedHit]:
        """As `Searcher.search`, which the evaluation scored, with a citation of each passage."""
        return [CitedHit(hit, self.citer.cite(query, hit.passage)) for hit in self.searcher.search(query, mode, k)]

    def episode(self, episode_id: str) -> dict[str, Any]:
        """Raises `UsageError` if there is none of that id."""
        if episode_id not in self.episodes:
            raise UsageError(f"there is no episode {episode_id!r}", "see the list of episodes")
        return self.episodes[episode_id]

    def passages_of(self, episode_id: str) -> Sequence[Passage]:
        """An episode's passages, those with a time first, in its order; then those without, in the order of their ids."""
        self.episode(episode_id)
        return self._by_episode.get(episode_id, [])

    @cached_property
    def _by_episode(self) -> dict[str, list[Passage]]:
        """Worked out twice where two threads ask first; with equal results."""
        found: dict[str, list[Passage]] = {}
        for passage in sorted(self.searcher.passages.values(), key=_in_time):
            found.setdefault(passage.episode_id, []).append(passage)
        return found


def _in_time(passage: Passage) -> tuple[bool, int, str]:
    return (passage.start_ms is None, passage.start_ms or 0, passage.chunk_id)
