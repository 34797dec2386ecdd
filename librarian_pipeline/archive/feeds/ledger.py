"""What earlier imports brought: `import.json` in the archive. It gives every item its id for good, and spares downloads."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from librarian_pipeline.archive.layout import EPISODE_ID
from librarian_pipeline.errors import UsageError

LEDGER_FILE = "import.json"
_VERSION = 1


@dataclass(frozen=True)
class Brought:
    """A file that was brought, and what it was made from."""

    file: str
    """its path below the archive, with slashes"""
    sha256: str
    """of the bytes that were written, in hex; empty for a file that somebody else put there, which is never touched"""
    sources: tuple[str, ...]
    """the addresses that it was chosen from, or for notes the digest of what they were written from"""
    url: str | None = None
    etag: str | None = None
    last_modified: str | None = None


@dataclass
class Episode:
    """An item's id, and its files by kind."""

    id: str
    title: str = ""
    files: dict[str, Brought] = field(default_factory=dict)
    coming: dict[str, Brought] = field(default_factory=dict)
    """files that were about to get their names, which an import that was killed may have come to or not"""


class Ledger:
    """The episodes that are known, by the key of their item."""

    def __init__(self, path: Path, episodes: dict[str, Episode]) -> None:
        self._path = path
        self.episodes = episodes

    @classmethod
    def read(cls, home: Path) -> "Ledger":
        """The ledger of the archive at `home`, empty where there is none. Raises `UsageError` where it can't be read.

        A damaged one is not started anew: that could give episodes other ids than those that the archive has.
        """
        path = home / LEDGER_FILE
        try:
            return cls(path, _episodes(json.loads(path.read_bytes())))
        except FileNotFoundError:
            return cls(path, {})
        except OSError as error:
            raise UsageError(f"{path} can't be read ({error.strerror})", "make it a file that you may read") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            fix = "restore it from a copy, or move it away to import everything under new ids"
            raise UsageError(f"{path} is damaged", fix) from error

    def save(self) -> None:
        """Writes the ledger in one step."""
        document = {"version": _VERSION, "episodes": {key: asdict(episode) for key, episode in self.episodes.items()}}
        write_text_at_once(self._path, json.dumps(document, ensure_ascii=False, indent=1) + "\n")


def write_text_at_once(path: Path, text: str) -> None:
    """Writes a file so that it is there whole or not at all. Not for two writers of the same file at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _episodes(document: dict[str, Any]) -> dict[str, Episode]:
    if document["version"] != _VERSION:
        raise ValueError("of another version")
    if not all(EPISODE_ID.fullmatch(entry["id"]) for entry in document["episodes"].values()):
        raise ValueError("an id that can't be a file's name")
    return {
        key: Episode(entry["id"], entry["title"], _by_kind(entry["files"]), _by_kind(entry.get("coming", {})))
        for key, entry in document["episodes"].items()
    }


def _by_kind(entries: dict[str, Any]) -> dict[str, Brought]:
    return {kind: _brought(entry) for kind, entry in entries.items()}


def _brought(entry: dict[str, Any]) -> Brought:
    return Brought(**{**entry, "sources": tuple(entry["sources"])})
