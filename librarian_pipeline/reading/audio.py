"""The file to listen to, and the link that opens it at a moment."""

from pathlib import Path

from librarian_pipeline.archive.layout import EPISODE_ID, Archive
from librarian_pipeline.archive.timecodes import MS_PER_SECOND


def audio_of(archive: Archive, episode_id: str) -> Path | None:
    """The recording of an episode, links resolved; None where there is none, or where it lies outside the archive.

    Raises `UsageError` where the archive is gone.
    """
    if EPISODE_ID.fullmatch(episode_id) is None:
        return None
    files = archive.discover(only=episode_id).episodes.get(episode_id)
    if files is None or files.audio is None:
        return None
    path = files.audio.resolve()
    return path if path.is_relative_to(archive.home.resolve()) and path.is_file() else None


def moment(start_ms: int) -> str:
    """The end of a link that makes a player begin there: `#t=483`, in whole seconds."""
    return f"#t={start_ms // MS_PER_SECOND}"


def file_link(path: Path, start_ms: int | None) -> str:
    """`file:///.../ep03.mp3#t=483`; without the end where no time is known."""
    return path.as_uri() + (moment(start_ms) if start_ms is not None else "")
