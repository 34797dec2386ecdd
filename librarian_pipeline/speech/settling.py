"""Files that are still being written: they are left for later, rather than taken for damaged."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from librarian_pipeline.errors import DeferredError, LibrarianError, SourceError
from librarian_pipeline.settings import AudioSettings

_State = tuple[int, int]


@contextmanager
def require_settled(path: Path, settings: AudioSettings) -> Iterator[None]:
    """Around the reading of a file: makes sure that it isn't written to before or meanwhile.

    A file that changed within `settle_s` is waited for, until that time is over. Raises `DeferredError` if it changes, even
    where reading it has failed: a file cut short by its writer is no bad file. `LibrarianError` where it is not there.
    """
    before = _settled_state(path, settings.settle_s)
    try:
        yield
    except SourceError as error:
        _require_same(path, before, error)
        raise
    _require_same(path, before)


def _settled_state(path: Path, settle_s: float) -> _State:
    state = _state(path)
    # A time in the future, from another machine's clock, tells nothing: such a file is waited for as well.
    wait_s = min(settle_s, settle_s - (time.time() - state[1] / 1e9))
    if wait_s > 0:
        time.sleep(wait_s)
        _require_same(path, state)
    return state


def _require_same(path: Path, before: _State, cause: Exception | None = None) -> None:
    if _state(path) != before:
        raise DeferredError(f"{path} is still being written", "the next run takes it up") from cause


def _state(path: Path) -> _State:
    """Size in bytes, and time of the last change in ns."""
    try:
        stat = path.stat()
    except OSError as error:
        raise LibrarianError(f"{path} can't be read ({error.strerror})", "check that it is there and may be read") from error
    return stat.st_size, stat.st_mtime_ns
