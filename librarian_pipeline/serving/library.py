"""The published index as it is served: each request is carried out on the snapshot that is current when it comes."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from librarian_pipeline.cache import FileState, file_state
from librarian_pipeline.errors import LibrarianError
from librarian_pipeline.publication import open_published
from librarian_pipeline.retrieval.embedders import Embedder, load_embedder
from librarian_pipeline.retrieval.embedders.shelf import EmbedderShelf
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.settings import EmbeddingSettings
from librarian_pipeline.storage.snapshot import SnapshotError
from librarian_pipeline.storage.snapshots import POINTER
from librarian_pipeline.workspace import Workspace

Result = TypeVar("Result")

RETRY_S = 30
"""After this time a snapshot that was refused is looked at again, though none of its files has changed: a disk may have
been away."""

Marks = dict[str, FileState]
"""The states of a snapshot's files, or of the pointer where that names none: what changes when they are mended."""


@dataclass(frozen=True)
class _Standing:
    """What is made of the pointer while it names `name` (None: no snapshot). `error` where nothing can be served.

    `marks` are those of a snapshot that was refused; None where it is the one that is served.
    """

    name: str | None
    edition: Edition | None
    error: LibrarianError | None = None
    marks: Marks | None = None
    since: float = field(default_factory=time.monotonic)

    def outcome(self) -> Edition:
        if self.edition is None:
            assert self.error is not None
            raise type(self.error)(self.error.message, self.error.fix)  # its own: several threads may raise it
        return self.edition


class Library:
    """For as many readers at a time as there are. Nothing is read before the first request, no model before a dense one."""

    def __init__(self, workspace: Workspace, load: Callable[[EmbeddingSettings], Embedder] = load_embedder) -> None:
        self.workspace = workspace
        self._snapshots = workspace.snapshots
        self._shelf = EmbedderShelf(load)
        self._standing: _Standing | None = None
        self._opening = threading.Lock()

    def carry_out(self, request: Callable[[Edition], Result]) -> Result:
        """What `request` makes of the current edition; it sees no other one while it is under way.

        Raises `UsageError` where nothing is published, and `SnapshotError` where no snapshot is whole.
        """
        return request(self.edition())

    def warm_up(self) -> None:
        """Opens the current edition and loads its embedding model, as the first dense query would. Raises like both."""
        self.edition().searcher.warm_up()

    def edition(self) -> Edition:
        """The current one, verified to the last bit when it was opened. Raises like `carry_out`.

        In place of a damaged one, the one that was served until now, else the latest whole one before it: with a warning.
        While one request opens what was newly published, others are carried out on what was served until then.
        """
        while True:
            standing = self._standing
            if standing is not None and self._is_current(standing):
                return standing.outcome()
            if not self._opening.acquire(blocking=standing is None):
                assert standing is not None
                return standing.outcome()
            try:
                if self._standing is standing:
                    self._standing = self._opened(standing.edition if standing else None)
                    return self._standing.outcome()
            finally:
                self._opening.release()

    def _is_current(self, standing: _Standing) -> bool:
        if standing.name != self._snapshots.served_id():
            return False
        if standing.marks is None:
            return True
        return time.monotonic() - standing.since < RETRY_S and standing.marks == self._marks(standing.name)

    def _opened(self, before: Edition | None) -> _Standing:
        """Raises `UsageError` where nothing is published."""
        while True:
            name = self._snapshots.served_id()
            marks = self._marks(name)
            try:
                return _Standing(name, self._open(name, before))
            except (LibrarianError, OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
                if self._snapshots.served_id() != name:
                    continue  # it was collected while it was read: another one is served by now
                if name is None and not marks:
                    raise
                return self._in_place(name, marks, before, _as_refusal(name, error))

    def _open(self, name: str | None, before: Edition | None) -> Edition:
        if before is not None and before.id == name:
            return before.with_warning(None)  # gone back to
        if name is None:
            open_published(self.workspace)  # raises: it knows why there is none
        snapshot = self._snapshots.open(str(name), thoroughly=True)
        return Edition.open(snapshot, self.workspace, self._shelf)

    def _in_place(self, name: str | None, marks: Marks, before: Edition | None, error: LibrarianError) -> _Standing:
        served = before or self._latest_whole(name)
        if served is None:
            return _Standing(name, None, error, marks)
        return _Standing(name, served.with_warning(f"{error.message}; {served.id} is served instead"), None, marks)

    def _latest_whole(self, name: str | None) -> Edition | None:
        """Of those that were published before that one: from those after it, a person went back."""
        for earlier in self._snapshots.earlier(name):
            try:
                return Edition.open(self._snapshots.open(earlier, thoroughly=True), self.workspace, self._shelf)
            except (LibrarianError, OSError, ValueError):
                continue  # the warning, or the error, names the one that should be served
        return None

    def _marks(self, name: str | None) -> Marks:
        folder = self._snapshots.folder
        paths = [folder / POINTER] if name is None else [folder / name, *(folder / name).rglob("*")]
        return {str(path): state for path in paths if (state := _state_of(str(path)))}


def _state_of(path: str) -> FileState | None:
    try:
        return file_state(path)
    except OSError:
        return None


def _as_refusal(name: str | None, error: Exception) -> LibrarianError:
    if isinstance(error, LibrarianError):
        return error
    return SnapshotError(f"the snapshot {name} can't be read ({' '.join(str(error).split())})")
