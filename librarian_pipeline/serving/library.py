"""The published index as it is served: each request is carried out on the snapshot that is current when it comes."""

import threading
from collections.abc import Callable
from typing import TypeVar

from librarian_pipeline.publication import open_published
from librarian_pipeline.retrieval.embedders import Embedder, load_embedder
from librarian_pipeline.retrieval.embedders.shelf import EmbedderShelf
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.settings import EmbeddingSettings
from librarian_pipeline.storage.snapshot import SnapshotError
from librarian_pipeline.workspace import Workspace

Result = TypeVar("Result")


class Library:
    """For as many readers at a time as there are. Nothing is read before the first request, no model before a dense one."""

    def __init__(self, workspace: Workspace, load: Callable[[EmbeddingSettings], Embedder] = load_embedder) -> None:
        self.workspace = workspace
        self._shelf = EmbedderShelf(load)
        self._edition: Edition | None = None
        self._lock = threading.Lock()

    def carry_out(self, request: Callable[[Edition], Result]) -> Result:
        """What `request` makes of the current edition; it sees no other one while it is under way.

        It is called anew if its snapshot is collected meanwhile: it must do nothing but read. Raises `UsageError` where
        nothing is published, and `SnapshotError` where no snapshot is whole.
        """
        while True:
            edition = self.edition()
            try:
                return request(edition)
            except OSError:
                # What an edition reads on demand goes after some more publications.
                if edition.is_there:
                    raise

    def edition(self) -> Edition:
        """The current one, verified to the last bit as it is opened. Raises like `carry_out`.

        In place of a damaged one, the one that was served until now, else the latest whole one before it: with a warning.
        """
        with self._lock:
            try:
                name = self.workspace.snapshots.current_id()
                if self._edition is None or self._edition.id != name or self._edition.warning is not None:
                    self._edition = self._newly_opened()
            except SnapshotError as error:
                self._edition = self._in_place_of_damaged(error)
            return self._edition

    def _newly_opened(self) -> Edition:
        snapshot = open_published(self.workspace)
        snapshot.verify()
        return Edition.open(snapshot, self.workspace, self._shelf)

    def _in_place_of_damaged(self, error: SnapshotError) -> Edition:
        before = self._edition or self._latest_whole(error)
        return before.with_warning(f"{error.message}; {before.id} is served instead")

    def _latest_whole(self, error: SnapshotError) -> Edition:
        for name in reversed(self.workspace.snapshots.history()):
            try:
                snapshot = self.workspace.snapshots.open(name, thoroughly=True)
            except SnapshotError:
                continue  # the warning, or the error, names the one that should be served
            return Edition.open(snapshot, self.workspace, self._shelf)
        raise error
