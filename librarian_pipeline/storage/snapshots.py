"""`published/`: the snapshots of an archive, and the pointer `CURRENT` to the one that is served.

A snapshot is built in a hidden folder and renamed when it is whole; then the pointer is swapped. So whoever reads the
pointer finds a whole snapshot, whenever a publisher is killed. Publishers queue at a lock; readers need none.

`HISTORY` lists what was served, the latest last. Going back moves only the pointer. What is published after that takes the
place of what the pointer had left behind.
"""

import json
import re
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
from filelock import FileLock

from librarian_pipeline.errors import LibrarianError, UsageError
from librarian_pipeline.storage import atomic
from librarian_pipeline.storage.manifest import ID_DIGITS, snapshot_id
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.storage.snapshot import Snapshot, SnapshotError
from librarian_pipeline.storage.snapshot_writing import write_snapshot
from librarian_pipeline.storage.tables import TableReader

POINTER = "CURRENT"
HISTORY = "HISTORY"
LOCK = ".lock"
TEMPORARY = ".tmp-"
_ID = re.compile(f"[0-9a-f]{{{ID_DIGITS}}}")


class Snapshots:
    """The snapshots in `folder`, of which the `keep` latest are kept."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self._keep = keep
        self._lock = FileLock(folder / LOCK)

    # Reading

    def current_id(self) -> str | None:
        """The name of the snapshot that is served; None before the first one. Raises `SnapshotError` if it names none."""
        try:
            name = (self.folder / POINTER).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise SnapshotError(f"{self.folder / POINTER} can't be read ({error})", self._publish_anew()) from error
        if not _ID.fullmatch(name):
            raise SnapshotError(f"{self.folder / POINTER} names no snapshot", self._publish_anew())
        return name

    def served_id(self) -> str | None:
        """The same, for those who don't read it: None, too, where it names none."""
        try:
            return self.current_id()
        except SnapshotError:
            return None

    def current(self) -> Snapshot | None:
        """The snapshot that is served; None before the first one. Raises `SnapshotError` if it is damaged."""
        while True:
            name = self.current_id()
            if name is None:
                return None
            try:
                return self.open(name)
            except SnapshotError:
                # A reader that was held up may find its snapshot collected; then another one is served.
                if self.current_id() == name:
                    raise

    def open(self, name: str, *, thoroughly: bool = False) -> Snapshot:
        """Raises `SnapshotError`, naming the snapshot before it, if that one is gone or damaged.

        Without `thoroughly`, files are not read for that: see `Snapshot.open` and `Snapshot.verify`.
        """
        try:
            return _opened(self.folder / name, thoroughly)
        except SnapshotError as error:
            raise SnapshotError(error.message, self._way_out(name)) from error

    def history(self) -> list[str]:
        """The snapshots that are there, as they were published, the latest last."""
        there = [path.name for path in self.folder.glob("*") if _ID.fullmatch(path.name)]
        try:
            listed = json.loads((self.folder / HISTORY).read_text(encoding="utf-8"))
            return [name for name in listed if name in there]
        except (OSError, ValueError, TypeError):  # lost: their manifests know when they were made
            return sorted(there, key=lambda name: (self._created(name), name))

    def problem(self) -> str | None:
        """Why nothing can be served; None where a whole snapshot is."""
        try:
            return None if self.current() else "nothing is published"
        except SnapshotError as error:
            return error.message

    def _created(self, name: str) -> str:
        try:
            return Snapshot.open(self.folder / name).manifest.created
        except SnapshotError:
            return ""

    def _way_out(self, name: str) -> str:
        before = next((other for other in self.earlier(name) if self._is_whole(other)), None)
        back = f"`librarian publish --rollback{self._home()}` goes back to {before}, or " if before else ""
        return f"{back}{self._publish_anew()}"

    def _publish_anew(self) -> str:
        return f"`librarian run{self._home()}` publishes anew"

    def _home(self) -> str:
        return f" --home {shlex.quote(str(self.folder.parent))}"

    def earlier(self, name: str | None) -> list[str]:
        """What is there that was published before that one, the latest first; all, if it is not known."""
        line = self.history()
        return line[: line.index(name)][::-1] if name in line else line[::-1]

    def _is_whole(self, name: str, *, thoroughly: bool = False) -> bool:
        try:
            _opened(self.folder / name, thoroughly)
        except SnapshotError:
            return False
        return True

    # Publishing

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Held while something is published; others wait. The lock of a process that was killed is free."""
        with self._told():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self.locked(), self._told():
            yield

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raises `LibrarianError` where the folder can't be written, for one on a full disk: what was served still is."""
        try:
            yield
        except (OSError, duckdb.Error) as error:
            why = getattr(error, "strerror", None) or str(error)
            fix = "make room, or make it writable; what was published before goes on being served"
            raise LibrarianError(f"{self.folder} can't be written ({' '.join(why.split())})", fix) from error

    def build(self, source: TableReader, records: Sequence[Provenance], search: Mapping[str, Any]) -> Snapshot:
        """The snapshot of these outputs, not served yet. One that is there already, and whole to the last bit, is kept.

        Raises like `write_snapshot`, and `LibrarianError` where the folder can't be written.
        """
        name = snapshot_id(records, search)
        with self._writing():
            self._sweep()
            if (self.folder / name).exists():
                try:
                    return self.open(name, thoroughly=True)
                except SnapshotError:
                    self._remove(name)
            temporary = self.folder / f"{TEMPORARY}{name}"
            try:
                write_snapshot(source, records, search, temporary)
                temporary.rename(self.folder / name)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            atomic.flush_to_disk(self.folder)
            return self.open(name)

    def serve(self, snapshot: Snapshot) -> None:
        """Swaps the pointer, and removes the snapshots that have become too old.

        Who has built the snapshot holds the lock since then: another publisher would collect what isn't served yet.
        """
        with self._writing():
            line, before = self.history(), self.served_id()
            if snapshot.id == before:
                return
            kept = line[: line.index(before) + 1] if before in line else line
            published = [*(name for name in kept if name != snapshot.id), snapshot.id][-self._keep :]
            atomic.write_text(json.dumps(published) + "\n", self.folder / HISTORY)
            self._point_at(snapshot.id)
            # Readers may still be at what was served until now, or before a step back: that goes with the next publication.
            self._collect({*published, *line[len(kept) :], before})

    def roll_back(self) -> tuple[str | None, str]:
        """Goes back to the snapshot before the one that is served; returns the names of both.

        Those that are damaged are passed over. Raises `UsageError` if none is left.
        """
        with self._writing():
            current = self.served_id()
            target = next((name for name in self.earlier(current) if self._is_whole(name, thoroughly=True)), None)
            if target is None:
                what = f"{current} is the oldest whole snapshot that is kept" if current else "nothing is published"
                raise UsageError(f"{what}: there is none to go back to", f"see `librarian publish --list{self._home()}`")
            self._point_at(target)
            return current, target

    def _point_at(self, name: str) -> None:
        atomic.write_text(f"{name}\n", self.folder / POINTER)

    def _collect(self, wanted: Collection[str | None]) -> None:
        for path in self.folder.iterdir():
            if _ID.fullmatch(path.name) and path.name not in wanted:
                self._remove(path.name)

    def _remove(self, name: str) -> None:
        """Out of sight first, so that nobody meets half of it."""
        hidden = self.folder / f"{TEMPORARY}gone-{name}"
        (self.folder / name).rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)

    def _sweep(self) -> None:
        """Removes what killed publishers left: whoever holds the lock is the only one at work."""
        for path in self.folder.glob(f"{TEMPORARY}*"):
            shutil.rmtree(path, ignore_errors=True)
        atomic.sweep(self.folder, ".*.tmp")


def _opened(folder: Path, thoroughly: bool) -> Snapshot:
    snapshot = Snapshot.open(folder)
    if thoroughly:
        snapshot.verify()
    return snapshot
