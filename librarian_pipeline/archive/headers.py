"""The front matter of notes, taken apart once for each state that a file is in: it is asked for again and again."""

from functools import lru_cache
from pathlib import Path

from librarian_pipeline.archive.notes import FrontMatter, read_front_matter
from librarian_pipeline.cache import FileState, file_state, is_settled
from librarian_pipeline.errors import SourceError


def header_of(notes: Path) -> FrontMatter | None:
    """The front matter of the notes at `notes`; None where it can't be read."""
    try:
        state = file_state(notes)
        return _remembered(notes, state) if is_settled(state) else _read(notes)
    except OSError:
        return None


@lru_cache(maxsize=1 << 16)
def _remembered(notes: Path, state: FileState) -> FrontMatter | None:
    return _read(notes)


def _read(notes: Path) -> FrontMatter | None:
    try:
        return read_front_matter(notes)
    except SourceError:  # the step that reads the notes says so
        return None
