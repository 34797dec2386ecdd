"""A published snapshot: a folder of tables, laid out like the warehouse, that is never written to again."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from librarian_pipeline.errors import LibrarianError
from librarian_pipeline.storage.manifest import MANIFEST, FileDigest, Manifest
from librarian_pipeline.storage.tables import TableReader


class SnapshotError(LibrarianError):
    """A snapshot that is not what was published."""


@dataclass(frozen=True)
class Snapshot:
    """Programs read `tables`; people with SQL open the database beside them, which has the same rows."""

    folder: Path
    manifest: Manifest

    @classmethod
    def open(cls, folder: Path) -> "Snapshot":
        """After a look at its manifest, and at the size of each file. Raises `SnapshotError` if one is not as published."""
        try:
            manifest = Manifest.from_json((folder / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise SnapshotError(f"the snapshot {folder.name} is damaged: it has no manifest") from error
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise SnapshotError(f"the snapshot {folder.name} is damaged: its manifest can't be read ({error})") from error
        if manifest.id != folder.name:
            raise SnapshotError(f"the snapshot {folder.name} is damaged: its manifest is that of {manifest.id}")
        snapshot = cls(folder, manifest)
        for name, digest in manifest.files.items():
            snapshot._require_size(name, digest)
        return snapshot

    @property
    def id(self) -> str:
        return self.manifest.id

    @property
    def tables(self) -> TableReader:
        return TableReader(self.folder)

    def verify(self) -> None:
        """Reads every file whole. Raises `SnapshotError`, naming the first that is not as published to the last bit."""
        for name, digest in self.manifest.files.items():
            self._require_size(name, digest)
            try:
                found = sha256_of(self.folder / name)
            except OSError as error:
                raise self._unreadable(name, error) from error
            self._require_digest(name, found)

    def read_verified(self, name: str) -> bytes:
        """A file of the manifest, to the last bit as it was published. Raises `SnapshotError` if it is another, or gone."""
        try:
            content = (self.folder / name).read_bytes()
        except OSError as error:
            raise self._unreadable(name, error) from error
        self._require_digest(name, hashlib.sha256(content).hexdigest())
        return content

    def _require_digest(self, name: str, found: str) -> None:
        if found != self.manifest.files[name].sha256:
            raise SnapshotError(f"the snapshot {self.id} is damaged: {name} is not as it was published")

    def _unreadable(self, name: str, error: OSError) -> SnapshotError:
        return SnapshotError(f"the snapshot {self.id} is damaged: {name} can't be read ({error.strerror})")

    def _require_size(self, name: str, digest: FileDigest) -> None:
        try:
            size = (self.folder / name).stat().st_size
        except OSError as error:
            raise self._unreadable(name, error) from error
        if size != digest.bytes:
            raise SnapshotError(f"the snapshot {self.id} is damaged: {name} has {size} bytes instead of {digest.bytes}")


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
