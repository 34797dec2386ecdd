"""What a file states about the length of its audio, held against what was decoded."""

import os
from dataclasses import dataclass, field
from typing import BinaryIO

from av.audio.stream import AudioStream
from av.container.input import InputContainer

from librarian_pipeline.archive.timecodes import MAX_MS
from librarian_pipeline.speech.streams import MICROSECONDS_PER_MS, header_ms, streams_note
from librarian_pipeline.speech.structure import MOST_SURPLUS_BYTES, Mp3Header, Structure

# These decide what a file's status is, which is a fact about it, and so no setting: what is stated leaves out or counts
# the encoder's padding, and is rounded to a second by some programs. `[checks]` says what of it is worth a warning.
TOLERANCE_MS = 2_000
# Where only the length of all streams together is stated: a film's picture may go on after its sound.
TOLERANCE_SHARE = 0.01
# These tell no times, and FFmpeg works out their duration from their size.
COUNTED_FORMATS = frozenset({"mp3", "aac", "ac3", "eac3", "dts", "dtshd", "truehd", "mlp", "loas", "amr", "amrnb", "amrwb"})
ESTIMATED_FORMATS = COUNTED_FORMATS | {"mpeg", "mpegts"}
SURPLUS_SHARE = 0.05


@dataclass
class Account:
    """`stated_ms` is the sum over the files that were joined in this one."""

    stated_ms: int | None = None
    last_packet_ms: int | None = None
    notes: list[str] = field(default_factory=list)
    """What is worth telling, though nothing is lost."""
    stopped: str | None = None
    """Why not all was decoded, if that is by the settings."""
    _is_exact: bool = True
    _tolerance_ms: float = TOLERANCE_MS
    _missing_bytes: int = 0

    def add(
        self, container: InputContainer, stream: AudioStream | None, structure: Structure, has_whole_header: bool
    ) -> float | None:
        """Takes note of a file's own statements. Returns the seconds that it states; None where they are an estimate."""
        stated_ms = header_ms(container, stream)
        if stated_ms is not None:
            self.stated_ms = min((self.stated_ms or 0) + stated_ms, MAX_MS)
        if stream is None:
            return None
        self._missing_bytes += structure.missing_bytes
        if note := streams_note(container, stream):
            self.notes.append(note)
        is_exact = container.format.name not in ESTIMATED_FORMATS or has_whole_header
        self._is_exact = self._is_exact and is_exact
        if stated_ms is None or not is_exact:
            return None
        if stream.duration is None:
            # Counted from zero, though the file may begin later.
            self._tolerance_ms += max(0, container.start_time or 0) / MICROSECONDS_PER_MS
        if stream.duration is None and len(container.streams) > 1:
            self._tolerance_ms += TOLERANCE_SHARE * stated_ms
        return stated_ms / 1_000

    def reasons(self, decoded_ms: int) -> list[str]:
        """What is missing of what was stated. Longer than stated is no loss: files are joined end to end."""
        decoded = f"{decoded_ms / 1_000:.1f} s"
        if self.stopped:
            return [self.stopped]
        if self._is_exact and self.stated_ms is not None and self.stated_ms - decoded_ms > self._tolerance_ms:
            return [f"the header says {self.stated_ms / 1_000:.1f} s, {decoded} could be decoded"]
        if self.last_packet_ms is not None and self.last_packet_ms - decoded_ms > self._tolerance_ms:
            return [f"the last packet ends at {self.last_packet_ms / 1_000:.1f} s, {decoded} could be decoded"]
        if self._missing_bytes:
            return [f"the file ends early, at {decoded}: {self._missing_bytes:,} bytes that it announces are missing"]
        return []


def covers_whole_file(header: Mp3Header | None, file: BinaryIO) -> bool:
    """Whether an MP3's header tells the length of the whole file: it has one, and no second file was joined on."""
    if header is None or not header.frames:
        return False
    if not header.n_bytes:
        return True
    length = os.fstat(file.fileno()).st_size - header.starts_at
    return length <= header.n_bytes * (1 + SURPLUS_SHARE) + MOST_SURPLUS_BYTES
