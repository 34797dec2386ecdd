"""Opens audio files, and chooses the stream to listen to."""

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import av
from av.audio.stream import AudioStream
from av.container.input import InputContainer
from av.stream import Discard, Disposition

from librarian_pipeline.archive.timecodes import MAX_MS
from librarian_pipeline.errors import LibrarianError, SourceError

# Playlists would make the decoder open other files and addresses. Audio comes from strangers: it may bring only itself.
ONLY_THIS_FILE = {"protocol_whitelist": ""}
MICROSECONDS_PER_MS = 1_000
UNLIKELY = Disposition.comment | Disposition.hearing_impaired | Disposition.visual_impaired | Disposition.descriptions


class FilePart(io.RawIOBase):
    """A file, or a part of it, for FFmpeg to read. It keeps its own place: others may read `file` meanwhile.

    Seeking before the beginning, which damaged headers lead to, gives a negative number, which FFmpeg understands.
    """

    def __init__(self, file: BinaryIO, start: int, end: int | None = None) -> None:
        self._file = file
        self._start = start
        self._end = os.fstat(file.fileno()).st_size if end is None else end
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._end - self._start}[whence]
        if base + offset < 0:
            return -errno.EINVAL
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._end - self._start - self._position)
        if not left:
            # Forged offsets lead further than a file system can seek.
            return b""
        self._file.seek(self._start + self._position)
        data = self._file.read(left if size < 0 else min(size, left))
        self._position += len(data)
        return data


@contextmanager
def opened_file(path: Path) -> Iterator[BinaryIO]:
    """Raises `LibrarianError` where the file can't be opened or read, `SourceError` where it is empty."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise SourceError(f"{path} is empty (0 bytes)", "copy or download it again")
            yield file
    except OSError as error:
        raise LibrarianError(f"{path} can't be read ({error.strerror})", "check that it is there and may be read") from error


def open_container(file: FilePart, path: Path, ignores_length: bool = False) -> InputContainer:
    """The container in an open file; `path` is for messages only. Raises `SourceError` where it is none."""
    options = {**ONLY_THIS_FILE, **({"ignore_length": "1"} if ignores_length else {})}
    try:
        # A file object, as FFmpeg would take a name such as `Ep: 5.mp3` for an address. Tags may be in any encoding.
        return av.open(file, mode="r", metadata_errors="ignore", container_options=options)
    except (av.error.FFmpegError, ValueError, OverflowError) as error:
        raise not_audio(path) from error


def not_audio(path: Path) -> SourceError:
    """What to tell of a file that isn't audio."""
    with path.open("rb") as file:
        head = file.read(512).lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return SourceError(
            f"{path} is a web page, not audio", "the download gave a page instead of the file: fetch it again"
        )
    return SourceError(f"{path} can't be read as audio", "replace it with a good copy, or remove it")


def choose_stream(container: InputContainer, path: Path) -> AudioStream | None:
    """The audio stream marked as the default one, else the most plausible; None where there is no audio stream.

    The other streams are not read. Raises `SourceError` where there are audio streams of which none makes sense.
    """
    streams = container.streams.audio
    if not streams:
        return None
    best = container.streams.best("audio")
    if not isinstance(best, AudioStream):
        # Noise can pass for a stream of some codec, of which no packet then makes sense.
        raise not_audio(path)
    defaults = [stream for stream in streams if stream.disposition & Disposition.default and stream.rate]
    likely = [stream for stream in defaults if not stream.disposition & UNLIKELY] or defaults
    chosen = best if best in likely or not likely else likely[0]
    for stream in container.streams:
        if stream.index != chosen.index:
            stream.discard = Discard.all
    return chosen


def streams_note(container: InputContainer, chosen: AudioStream) -> str | None:
    """Which of several audio streams was taken; None where there is only one."""
    streams = container.streams.audio
    if len(streams) < 2:
        return None
    others = ", ".join(_described(stream) for stream in streams if stream.index != chosen.index)
    return f"of {len(streams)} audio streams {_described(chosen)} was taken, not {others}"


def header_ms(container: InputContainer, stream: AudioStream | None) -> int | None:
    """The duration that the file states, or that FFmpeg estimates from its size, in milliseconds."""
    duration: int | None = None
    if stream is not None and stream.duration is not None and stream.time_base is not None:
        duration = round(stream.duration * stream.time_base * 1_000)
    elif container.duration is not None:
        duration = round(container.duration / MICROSECONDS_PER_MS)
    # Damaged headers state anything.
    return duration if duration is not None and 0 <= duration <= MAX_MS else None


def _described(stream: AudioStream) -> str:
    title = stream.metadata.get("title") or stream.language
    return f"stream {stream.index}" + (f" ({' '.join(title.split())[:40]})" if title else "")
