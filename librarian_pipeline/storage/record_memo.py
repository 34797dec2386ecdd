"""Remembers the records inside Parquet files, so that twelve thousand footers aren't read to learn that nothing changed.

The files stay the truth: what is remembered of one counts only while its inode, size and times are those that it had when
its footer was read.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from librarian_pipeline.cache import FileState, file_state, is_settled
from librarian_pipeline.storage import atomic
from librarian_pipeline.storage.provenance import PARQUET_KEY, Provenance

WORTH_SAVING = 20
"""One part in so many is to be new before all is written again: until then, reading those few anew takes less time."""

FEW = 50
"""Files whose footers are read before it is worth the time to ask what earlier processes remembered."""


@dataclass(frozen=True)
class StoredFile:
    """What a Parquet file of ours says of itself. `columns` is a hash of their names and types."""

    record: Provenance
    columns: str
    state: FileState

    @property
    def changed_ns(self) -> int:
        return self.state[2]


class RecordMemo:
    """The records of the files below `root`, by their paths relative to it.

    Between processes it is kept in a file, which is only ever a cache: missing, damaged, or written by another process
    meanwhile, it costs time and changes nothing.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._path = root / ".memo" / "records.json"
        self._known: dict[str, StoredFile] = {}
        self._news = 0
        self._misses = 0
        self._is_loaded = False
        self._lock = threading.Lock()

    def look_up(self, name: str) -> StoredFile | None:
        """What the file of that name says of itself; None where there is none, or one that isn't whole or isn't ours."""
        path = f"{self._root}/{name}"
        try:
            state = file_state(path)
            known = self._known.get(name)
            if known is not None and known.state == state:
                return known
            self._misses += 1
            if self._misses == FEW:
                self._load()
                return self.look_up(name)
            found = _read(path, state)
        except (OSError, ValueError, TypeError, KeyError):  # pyarrow's ArrowInvalid is a ValueError
            return None
        if is_settled(state) and _is_still(path, state):
            self._known[name] = found
            self._news += 1
        return found

    def _load(self) -> None:
        """Takes in what earlier processes remembered."""
        with self._lock:
            if not self._is_loaded:
                self._known = {**dict(_loaded(self._path)), **self._known}
                self._is_loaded = True

    def save(self) -> None:
        """Keeps what is known for later processes, once enough of it is new. What can't be kept is read again."""
        if not self._news:
            return
        self._load()
        with self._lock:
            if self._news * WORTH_SAVING <= len(self._known):
                return
            known = dict(self._known)
            packed = {
                name: [*file.state, file.columns, vars(file.record)]
                for name, file in known.items()
                if _is_still(f"{self._root}/{name}", file.state)
            }
            body = json.dumps(packed, ensure_ascii=False)
            with suppress(OSError):
                atomic.write_text(f"{_seal(body)}\n{body}", self._path)
            self._news = 0


@lru_cache(maxsize=16)
def memo_of(root: Path) -> RecordMemo:
    """The one memo of this process for that folder."""
    return RecordMemo(root)


def _read(path: str, state: FileState) -> StoredFile:
    metadata = pq.read_metadata(path)
    record = Provenance.from_json((metadata.metadata or {})[PARQUET_KEY])
    columns = metadata.schema.to_arrow_schema().remove_metadata()
    return StoredFile(record, hashlib.sha256(str(columns).encode()).hexdigest()[:16], state)


def _is_still(path: str, state: FileState) -> bool:
    try:
        return file_state(path) == state
    except OSError:
        return False


def _loaded(path: Path) -> Iterator[tuple[str, StoredFile]]:
    """Nothing of a file that isn't whole to the last bit, or that another version wrote."""
    try:
        seal, _, body = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, ValueError):
        return
    if seal != _seal(body):
        return
    for name, (inode, size, modified, changed, columns, record) in json.loads(body).items():
        yield name, StoredFile(Provenance(**record), columns, (inode, size, modified, changed))


def _seal(body: str) -> str:
    """Of what it says, and in which form: a record's fields, and how pyarrow names types."""
    form = " ".join([pa.__version__, *(field.name for field in fields(Provenance))])
    return hashlib.sha256(f"{form}\n{body}".encode()).hexdigest()
