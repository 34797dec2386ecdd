"""Audio files to samples: 16 kHz mono, whatever the container, and an honest account of what was lost on the way."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container.input import InputContainer

from librarian_pipeline.archive.timecodes import MAX_MS
from librarian_pipeline.errors import LibrarianError, SourceError
from librarian_pipeline.settings import AudioSettings
from librarian_pipeline.speech.account import COUNTED_FORMATS, Account, covers_whole_file
from librarian_pipeline.speech.buffer import SampleBuffer
from librarian_pipeline.speech.damage import MOST_PLACES_NAMED, Damage
from librarian_pipeline.speech.mixdown import Mixdown, unusable
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ, Samples, to_ms
from librarian_pipeline.speech.streams import (
    FilePart,
    choose_stream,
    header_ms,
    open_container,
    opened_file,
)
from librarian_pipeline.speech.structure import Mp3Header, Structure, examine, mp3_header
from librarian_pipeline.speech.timeline import CountedPlacement, Placement, TimedPlacement

# In noise that passes for audio, packets decode by chance, but not one after another.
LONGEST_CHANCE_RUN = 10
MOST_PARTS = 1_000
MICROSECONDS = 1_000_000


@dataclass(frozen=True, eq=False)
class DecodedAudio:
    """The samples of one file (mono, 16 kHz, 16 bits), and what is known about the file.

    `sample_rate_hz` and `channels` are those of the file. `status` is `ok`, `partial` (some audio was lost), or `no_audio`
    (no audio stream: no samples, `codec` empty, `channels` and `sample_rate_hz` 0). `status_reason` says what was lost and
    where, and which of several streams was taken. `duration_header_ms` is an estimate for formats that state none.
    """

    samples: Samples
    codec: str
    channels: int
    sample_rate_hz: int
    duration_header_ms: int | None
    duration_last_packet_ms: int | None
    duration_decoded_ms: int
    bad_packets: int
    status: str
    status_reason: str | None


def decode(path: Path, limits: AudioSettings) -> DecodedAudio:
    """Decodes the audio of a file, going on after damage; times stay where they are in the undamaged file.

    Raises `SourceError` where the file is no audio or gives no sample, `LibrarianError` where it can't be opened.
    """
    with opened_file(path) as file:
        decoder = _Decoder(path, file, limits)
        try:
            return decoder.run()
        except MemoryError as error:
            raise LibrarianError(f"{path} takes more memory than there is", "lower `[audio] max_hours`") from error


def header_duration_ms(path: Path) -> int | None:
    """The duration that a file states, in milliseconds, without decoding it; None where it states none or can't be read.

    For the totals of progress bars only: `decode` is where an unreadable file gets its error.
    """
    try:
        with opened_file(path) as file, open_container(FilePart(file, 0), path) as container:
            return header_ms(container, choose_stream(container, path))
    except LibrarianError:
        return None


class _Decoder:
    """One file on its way to samples."""

    def __init__(self, path: Path, file: BinaryIO, limits: AudioSettings) -> None:
        self._path = path
        self._file = file
        self._limits = limits
        self._buffer = SampleBuffer(int(limits.max_hours * 3_600 * SAMPLE_RATE_HZ))
        self._mixdown = Mixdown(self._buffer)
        self._damage = Damage()
        self._account = Account()
        self._native_bytes = 0
        self._n_good = 0
        self._run = 0
        self._longest_run = 0
        self._unusable: str | None = None
        self._silent_parts_s: list[float] = []

    def run(self) -> DecodedAudio:
        facts: tuple[str, int, int] | None = None
        for start, structure in _parts(self._file):
            found = self._joined_part(start, structure) if start else self._part(start, structure)
            if found is None:
                self._silent_parts_s.append(self._mixdown.end_s)
            facts = facts or found
            if self._account.stopped:
                break
        if facts is None:
            return _without_audio(self._account.stated_ms)
        if self._silent_parts_s:
            where = ", ".join(f"{at_s:.1f}" for at_s in self._silent_parts_s[:MOST_PLACES_NAMED])
            n_parts = len(self._silent_parts_s)
            self._damage.other(f"of the files that were joined, {n_parts} (at {where} s) can't be read as audio")
        return self._result(*facts)

    def _joined_part(self, start: int, structure: Structure) -> tuple[str, int, int] | None:
        try:
            return self._part(start, structure)
        except SourceError:
            return None

    def _part(self, start: int, structure: Structure) -> tuple[str, int, int] | None:
        """Decodes one of the files that may be joined in this one; None where it has no audio stream."""
        part = FilePart(self._file, start, structure.ends_at)
        with open_container(part, self._path, structure.ignores_length) as container:
            stream = choose_stream(container, self._path)
            header = mp3_header(self._file) if container.format.name == "mp3" else None
            stated = self._account.add(container, stream, structure, covers_whole_file(header, self._file))
            if stream is None or stream.codec_context is None:  # none: a codec that nobody knows
                return None
            if stream.codec_context.name == "flac":
                # Its checksums tell damage that would be decoded to noise otherwise.
                stream.codec_context.options = {"err_detect": "crccheck+explode"}
            self._packets(container, stream, self._placement(container, header, stated))
            return stream.codec_context.codec.canonical_name, stream.channels, stream.rate

    def _placement(self, container: InputContainer, header: Mp3Header | None, stated_s: float | None) -> Placement:
        if container.format.name in COUNTED_FORMATS:
            return CountedPlacement(self._mixdown, self._damage, self._file, header, stated_s)
        start_s = container.start_time / MICROSECONDS if container.start_time is not None else None
        return TimedPlacement(self._mixdown, self._damage, start_s, stated_s)

    def _packets(self, container: InputContainer, stream: AudioStream, placement: Placement) -> None:
        for packet, following in _with_following(self._demuxed(container, stream)):
            try:
                frames = packet.decode()
            except (av.error.FFmpegError, ValueError, OverflowError):
                self._bad(placement, packet)
                continue
            if wrong := next(filter(None, map(unusable, frames)), None):
                self._unusable = wrong
                self._bad(placement, packet)
                continue
            placement.good(packet, frames, following)
            if packet.size:
                self._n_good += 1
                self._run += 1
                self._longest_run = max(self._longest_run, self._run)
            for frame in frames:
                self._add(frame)
            end_s = placement.end_s(packet)
            if end_s is not None:
                self._account.last_packet_ms = round(min(max(end_s * 1_000, 0), MAX_MS))
            if self._is_over_limits():
                break
        placement.finish()
        self._mixdown.flush()

    def _add(self, frame: AudioFrame) -> None:
        self._native_bytes += frame.samples * frame.layout.nb_channels * frame.format.bytes
        if not self._mixdown.add(frame):
            self._run = 0

    def _bad(self, placement: Placement, packet: "av.Packet[AudioStream]") -> None:
        placement.bad(packet)
        self._run = 0

    def _demuxed(self, container: InputContainer, stream: AudioStream) -> "Iterator[av.Packet[AudioStream]]":
        try:
            yield from container.demux(stream)
        except av.error.FFmpegError as error:
            what = error.strerror or type(error).__name__
            self._damage.other(f"reading ended early at {self._mixdown.end_s:.1f} s ({what})")

    def _is_over_limits(self) -> bool:
        if self._buffer.is_full:
            self._account.stopped = f"only the first {self._limits.max_hours:g} hours were decoded (`[audio] max_hours`)"
        elif self._native_bytes > self._limits.max_decoded_gb * 1e9:
            limit = f"{self._limits.max_decoded_gb:g} GB"
            self._account.stopped = (
                f"decoding was stopped at {self._mixdown.end_s:.1f} s, after {limit} (`[audio] max_decoded_gb`)"
            )
        return self._account.stopped is not None

    def _result(self, codec: str, channels: int, rate_hz: int) -> DecodedAudio:
        for at_s, lost_s in self._mixdown.lost:
            self._damage.bad_packets += 1
            self._damage.bridged(at_s, lost_s)
        self._refuse_next_to_nothing()
        decoded_ms = to_ms(self._buffer.size)
        reasons = self._damage.reasons() + self._account.reasons(decoded_ms)
        notes = self._account.notes
        if self._mixdown.cancelled_s:
            seconds = f"{self._mixdown.cancelled_s:.1f} s"
            notes = [*notes, f"for {seconds} the channels cancel each other out, and the loudest was taken alone"]
        return DecodedAudio(
            samples=self._buffer.take(),
            codec=codec,
            channels=channels,
            sample_rate_hz=rate_hz,
            duration_header_ms=self._account.stated_ms,
            duration_last_packet_ms=self._account.last_packet_ms,
            duration_decoded_ms=decoded_ms,
            bad_packets=self._damage.bad_packets,
            status="partial" if reasons else "ok",
            status_reason="; ".join([*reasons, *notes]) or None,
        )

    def _refuse_next_to_nothing(self) -> None:
        by_chance = self._damage.bad_packets > self._n_good and self._longest_run < LONGEST_CHANCE_RUN
        if self._buffer.size and self._n_good and not by_chance:
            return
        because = f" ({self._unusable})" if self._unusable else ""
        raise SourceError(
            f"{self._path} holds next to nothing that can be decoded{because}", "replace it with a good copy, or remove it"
        )


def _parts(file: BinaryIO) -> Iterator[tuple[int, Structure]]:
    """The files that were joined in this one: where each begins, and what it states."""
    start = 0
    for _ in range(MOST_PARTS):
        structure = examine(file, start)
        yield start, structure
        if structure.ends_at is None or structure.ends_at <= start:
            return
        start = structure.ends_at


def _with_following(
    packets: "Iterator[av.Packet[AudioStream]]",
) -> "Iterator[tuple[av.Packet[AudioStream], av.Packet[AudioStream] | None]]":
    before: av.Packet[AudioStream] | None = None
    for packet in packets:
        if before is not None:
            yield before, packet
        before = packet
    if before is not None:
        yield before, None


def _without_audio(header_duration: int | None) -> DecodedAudio:
    return DecodedAudio(
        samples=np.zeros(0, np.int16),
        codec="",
        channels=0,
        sample_rate_hz=0,
        duration_header_ms=header_duration,
        duration_last_packet_ms=None,
        duration_decoded_ms=0,
        bad_packets=0,
        status="no_audio",
        status_reason="the file has no audio stream",
    )
