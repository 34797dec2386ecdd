"""Audio files to samples: 16 kHz mono float32, whatever the container, and an honest account of what was lost on the way."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import av
import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container.input import InputContainer

from librarian_pipeline.errors import LibrarianError, SourceError

SAMPLE_RATE_HZ = 16_000

DURATION_TOLERANCE_MS = 2_000
DURATION_TOLERANCE_SHARE = 0.01
# Playlists would make the decoder open other files and addresses. Audio comes from strangers: it may bring only itself.
ONLY_THIS_FILE = {"protocol_whitelist": ""}
MICROSECONDS_PER_MS = 1_000
# Otherwise a mono mix in floats comes out louder than its channels: two of the same add up to 1.41 times one.
MIX_WITHOUT_GAIN = {"rematrix_maxval": "1.0"}

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class DecodedAudio:
    """The samples of one file (mono, 16 kHz, -1 to 1), and what is known about the file.

    `sample_rate_hz` and `channels` are those of the file. `status` is `ok`, `partial` (some audio was lost, and
    `status_reason` says how), or `no_audio` (no audio stream: no samples, `codec` empty, `channels` and `sample_rate_hz` 0).
    """

    samples: Samples
    codec: str
    channels: int
    sample_rate_hz: int
    duration_header_ms: int | None
    duration_decoded_ms: int
    bad_packets: int
    status: str
    status_reason: str | None


def decode(path: Path) -> DecodedAudio:
    """Decodes the audio of a file, going on after damage.

    Raises `SourceError` where the file is no audio or gives no sample, `LibrarianError` where it can't be opened.
    """
    with _opened(path) as container:
        stream = _audio_stream(container, path)
        header_ms = _header_ms(container, stream)
        if stream is None:
            return _without_audio(header_ms)
        samples, tally = _decode_stream(container, stream)
        # In noise that passes for audio, a packet now and then decodes by chance.
        if not samples.size or tally.bad_packets > tally.good_packets:
            raise SourceError(
                f"{path} holds next to nothing that can be decoded", "replace it with a good copy, or remove it"
            )
        decoded_ms = round(samples.size * 1_000 / SAMPLE_RATE_HZ)
        reasons = tally.reasons() + _duration_reasons(header_ms, decoded_ms)
        return DecodedAudio(
            samples=samples,
            codec=stream.codec_context.codec.canonical_name,
            channels=stream.channels,
            sample_rate_hz=stream.rate,
            duration_header_ms=header_ms,
            duration_decoded_ms=decoded_ms,
            bad_packets=tally.bad_packets,
            status="partial" if reasons else "ok",
            status_reason="; ".join(reasons) or None,
        )


def header_duration_ms(path: Path) -> int | None:
    """The duration that a file states, in milliseconds, without decoding it; None where it states none or can't be read.

    For the totals of progress bars only: `decode` is where an unreadable file gets its error.
    """
    try:
        with _opened(path) as container:
            return _header_ms(container, _audio_stream(container, path))
    except LibrarianError:
        return None


@dataclass
class _Tally:
    good_packets: int = 0
    bad_packets: int = 0
    read_errors: list[str] = field(default_factory=list)

    def reasons(self) -> list[str]:
        damaged = [f"{self.bad_packets} damaged packets were skipped"] if self.bad_packets else []
        return damaged + [f"reading ended early ({error})" for error in self.read_errors]


class _Resampler:
    """Frames to blocks of samples. The format may change midway, as where files were joined end to end."""

    def __init__(self) -> None:
        self._resampler: AudioResampler | None = None
        self._format: tuple[str, str, int] | None = None

    def add(self, frame: AudioFrame) -> list[Samples]:
        frame_format = (frame.format.name, frame.layout.name, frame.sample_rate)
        blocks = self.flush() if frame_format != self._format else []
        if self._resampler is None:
            self._resampler = AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE_HZ, options=MIX_WITHOUT_GAIN)
            self._format = frame_format
        # The resampler refuses times that jump, which they do after damage; the samples follow each other anyway.
        frame.pts = None
        try:
            return blocks + _blocks(self._resampler.resample(frame))
        except av.error.FFmpegError:
            # It refuses everything after a frame that it can't take, even to be flushed.
            self._resampler = None
            raise

    def flush(self) -> list[Samples]:
        if self._resampler is None:
            return []
        blocks = _blocks(self._resampler.resample(None))
        self._resampler = None
        return blocks


def _blocks(frames: list[AudioFrame]) -> list[Samples]:
    return [frame.to_ndarray().reshape(-1).astype(np.float32, copy=False) for frame in frames]


@contextmanager
def _opened(path: Path) -> Iterator[InputContainer]:
    try:
        with path.open("rb") as file, _container(file, path) as container:
            yield container
    except OSError as error:
        raise LibrarianError(f"{path} can't be read ({error.strerror})", "check that it is there and may be read") from error


def _container(file: BinaryIO, path: Path) -> InputContainer:
    if os.fstat(file.fileno()).st_size == 0:
        raise SourceError(f"{path} is empty (0 bytes)", "copy or download it again")
    try:
        # A file object, as FFmpeg would take a name such as `Ep: 5.mp3` for an address. Tags may be in any encoding.
        return av.open(file, mode="r", metadata_errors="ignore", container_options=ONLY_THIS_FILE)
    except av.error.FFmpegError as error:
        raise _not_audio(path) from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # A damaged header sent the reader to a place before the file's beginning.
        raise _not_audio(path) from error


def _not_audio(path: Path) -> SourceError:
    with path.open("rb") as file:
        head = file.read(512).lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return SourceError(
            f"{path} is a web page, not audio", "the download gave a page instead of the file: fetch it again"
        )
    return SourceError(f"{path} can't be read as audio", "replace it with a good copy, or remove it")


def _audio_stream(container: InputContainer, path: Path) -> AudioStream | None:
    stream = container.streams.best("audio")
    if isinstance(stream, AudioStream):
        return stream
    if container.streams.audio:
        # Noise can pass for a stream of some codec, of which no packet then makes sense.
        raise _not_audio(path)
    return None


def _header_ms(container: InputContainer, stream: AudioStream | None) -> int | None:
    if stream is not None and stream.duration is not None and stream.time_base is not None:
        return round(stream.duration * stream.time_base * 1_000)
    if container.duration is not None:
        return round(container.duration / MICROSECONDS_PER_MS)
    return None


def _decode_stream(container: InputContainer, stream: AudioStream) -> tuple[Samples, _Tally]:
    tally = _Tally()
    resampler = _Resampler()
    blocks: list[Samples] = []
    for packet in _packets(container, stream, tally):
        try:
            for frame in packet.decode():
                blocks += resampler.add(frame)
            tally.good_packets += 1
        except av.error.FFmpegError:
            tally.bad_packets += 1
    blocks += resampler.flush()
    return np.concatenate(blocks) if blocks else np.zeros(0, np.float32), tally


def _packets(container: InputContainer, stream: AudioStream, tally: _Tally) -> "Iterator[av.Packet[AudioStream]]":
    try:
        yield from container.demux(stream)
    except av.error.FFmpegError as error:
        tally.read_errors.append(error.strerror or type(error).__name__)


def _duration_reasons(header_ms: int | None, decoded_ms: int) -> list[str]:
    if header_ms is None:
        return []
    tolerance_ms = max(DURATION_TOLERANCE_MS, DURATION_TOLERANCE_SHARE * header_ms)
    if abs(decoded_ms - header_ms) <= tolerance_ms:
        return []
    return [f"the header says {header_ms / 1_000:.1f} s, {decoded_ms / 1_000:.1f} s could be decoded"]


def _without_audio(header_ms: int | None) -> DecodedAudio:
    return DecodedAudio(
        samples=np.zeros(0, np.float32),
        codec="",
        channels=0,
        sample_rate_hz=0,
        duration_header_ms=header_ms,
        duration_decoded_ms=0,
        bad_packets=0,
        status="no_audio",
        status_reason="the file has no audio stream",
    )
