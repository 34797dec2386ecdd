"""The cache folder of this machine, and digests of files: what makes the same work needless twice."""

import hashlib
import json
import os
import tempfile
import time
from pathlib import Path

import platformdirs

from librarian_pipeline.errors import UsageError

CACHE_VARIABLE = "LIBRARIAN_CACHE"
# A file written this recently may change again without its time changing: clocks of file systems are that coarse.
SETTLED_NS = 2_000_000_000

FileState = tuple[int, int, int, int]
"""Inode, size, and the times (ns) of the last change of the content and of the inode, which nobody can set back."""


def file_state(path: str | Path) -> FileState:
    """What changes with every change of a file. Raises `OSError` where there is none."""
    stat = os.stat(path)  # noqa: PTH116  asked of thousands of files: making a Path takes longer than the call
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def is_settled(state: FileState) -> bool:
    """Whether the file can't have changed since without a change of its state."""
    return abs(time.time_ns() - max(state[2:])) > SETTLED_NS


def cache_dir() -> Path:
    """The folder for what can be made again: `LIBRARIAN_CACHE`, else the user's cache folder. It exists on return.

    Raises `UsageError` where it can't be made.
    """
    folder = Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("librarian-pipeline")).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = f"set {CACHE_VARIABLE} to a folder that can be written"
        raise UsageError(f"the cache folder {folder} can't be made ({error.strerror})", fix) from error
    return folder.absolute()


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hex. Raises `OSError` where it can't be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class DigestMemo:
    """Remembers the digests of files in a JSON file, so that a file is read again only once it has changed.

    A file counts as unchanged while its absolute path, inode, size and times (ns) are the same. A memo that is missing
    or damaged starts anew: everything in it can be worked out again. Not for several threads at once.
    """

    def __init__(self, memo_path: Path) -> None:
        self._memo_path = memo_path
        self._digests = _read_memo(memo_path)
        self._changed = False

    def sha256(self, path: Path) -> str:
        """The SHA-256 of a file, in hex. Raises `OSError` where it can't be read."""
        state = file_state(path)
        key = str(path.absolute())
        known = self._digests.get(key)
        if known is not None and tuple(known[:-1]) == state:
            return str(known[-1])
        digest = file_sha256(path)
        if file_state(path) == state and is_settled(state):
            self._digests[key] = [*state, digest]
            self._changed = True
        return digest

    def save(self) -> None:
        """Writes the memo in one step, if anything in it changed, without the files that are gone.

        Raises `OSError` where it can't be written.
        """
        if not self._changed:
            return
        self._digests = {path: entry for path, entry in self._digests.items() if Path(path).exists()}
        self._memo_path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._memo_path.parent, prefix=f".{self._memo_path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self._digests, file)
            temporary.replace(self._memo_path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._changed = False


def _read_memo(memo_path: Path) -> dict[str, list[int | str]]:
    try:
        memo = json.loads(memo_path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    if not isinstance(memo, dict):
        return {}
    return {path: entry for path, entry in memo.items() if _is_entry(entry)}


def _is_entry(entry: object) -> bool:
    return isinstance(entry, list) and [type(part) for part in entry] == [int, int, int, int, str]
