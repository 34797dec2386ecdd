"""What is known of an episode's audio file: the row of `audio`."""

from pathlib import Path
from typing import Any

from librarian_pipeline.cache import file_sha256
from librarian_pipeline.errors import DeferredError, SourceError
from librarian_pipeline.settings import AudioSettings
from librarian_pipeline.speech.decode import decode
from librarian_pipeline.speech.settling import require_settled

UNREADABLE = "unreadable"
DEFERRED = "deferred"


def audio_row(path: Path, episode_id: str, home: Path, settings: AudioSettings) -> dict[str, Any]:
    """A row of `schemas.AUDIO`.

    A file that can't be read gets a row too, with the status `unreadable` and the reason, and one that is still being
    written gets the status `deferred`. Raises `LibrarianError` where the file is not there.
    """
    row: dict[str, Any] = {"episode_id": episode_id, "source_path": path.relative_to(home).as_posix()}
    try:
        with require_settled(path, settings):
            row["audio_sha256"] = file_sha256(path)
            row["audio_bytes"] = path.stat().st_size
            audio = decode(path, settings)
    except DeferredError as error:
        # The digest would be that of a moment.
        return {**row, "audio_sha256": None, "audio_bytes": None, "status": DEFERRED, "status_reason": str(error)}
    except SourceError as error:
        return {**row, "status": UNREADABLE, "status_reason": str(error)}
    return {
        **row,
        "codec": audio.codec,
        "channels": audio.channels,
        "sample_rate_hz": audio.sample_rate_hz,
        "duration_header_ms": audio.duration_header_ms,
        "duration_last_packet_ms": audio.duration_last_packet_ms,
        "duration_decoded_ms": audio.duration_decoded_ms,
        "bad_packets": audio.bad_packets,
        "status": audio.status,
        "status_reason": audio.status_reason,
    }
