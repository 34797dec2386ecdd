"""Which snapshot is served: the name in `published/CURRENT`."""

from pathlib import Path

POINTER = "CURRENT"


def published_snapshot(published_dir: Path) -> str | None:
    """The id of the snapshot that is served; None where nothing has been published."""
    try:
        return (published_dir / POINTER).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
