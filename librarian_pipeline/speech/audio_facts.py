"""What is known of an episode's audio file: the row of `audio`."""

from pathlib import Path
from typing import Any

from librarian_pipeline.cache import file_sha256
from librarian_pipeline.errors import SourceError
from librarian_pipeline.speech.decode import decode

UNREADABLE = "unreadable"


def audio_row(path: Path, episode_id: str, home: Path) -> dict[str, Any]:
    """A row of `schemas.AUDIO`. A file that can't be read gets a row too, with the status `unreadable` and the reason."""
    row: dict[str, Any] = {
        "episode_id": episode_id,
        "source_path": path.relative_to(home).as_posix(),
        "audio_sha256": file_sha256(path),
        "audio_bytes": path.stat().st_size,
    }
    try:
        audio = decode(path)
    except SourceError as error:
        return {**row, "status": UNREADABLE, "status_reason": str(error)}
    return {
        **row,
        "codec": audio.codec,
        "channels": audio.channels,
        "sample_rate_hz": audio.sample_rate_hz,
        "duration_header_ms": audio.duration_header_ms,
        "duration_decoded_ms": audio.duration_decoded_ms,
        "bad_packets": audio.bad_packets,
        "status": audio.status,
        "status_reason": audio.status_reason,
    }
