"""What a file's own bytes state about its length: where its audio should end, and whether another file was joined on.

FFmpeg reads what is there, and doesn't tell how much there should be. Nor does it read on after the end of a WAV or MP4
file.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

# Sizes from here on stand for "not known yet" in files that were written to a pipe.
MIN_UNKNOWN_SIZE = 0x7FFF_F000
MAX_BLOCKS = 100_000
MP4_BLOCKS = frozenset({b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"moof", b"styp", b"sidx", b"mfra", b"meta"})
W64_RIFF = b"riff" + bytes.fromhex("2e91cf11a5d628db04c10000")
W64_DATA = b"data" + bytes.fromhex("f3acd3118cd100c04f8edb8a")
OGG_TAIL_BYTES = 1 << 17
OGG_HEADER_BYTES = 27
MP3_HEAD_BYTES = 1 << 13
# More bytes than an MP3's header announces are junk that got in, up to this; beyond, another file that was joined on.
MOST_SURPLUS_BYTES = 1 << 16


@dataclass(frozen=True)
class Structure:
    """`missing_bytes` were announced but are not there. `ends_at` is the offset where this file ends and another begins.

    `ignores_length`: the size of a WAV's samples is wrong, as it is where they are more than it can express.
    """

    missing_bytes: int = 0
    ends_at: int | None = None
    ignores_length: bool = False


@dataclass(frozen=True)
class Mp3Header:
    """The frame that encoders put first: how many frames and bytes follow. Either may not be stated."""

    frames: int | None
    n_bytes: int | None
    starts_at: int


@dataclass(frozen=True)
class _Block:
    name: bytes
    start: int
    data_start: int
    end: int | None
    """None where the size is not known."""


def examine(file: BinaryIO, start: int) -> Structure:
    """What the file that begins at `start` states, for the formats that state it. `file` may be anywhere afterwards."""
    size = os.fstat(file.fileno()).st_size
    file.seek(start)
    head = file.read(16)
    if head[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64") and _is_wave(file, start):
        return _of_wave(file, start, size)
    if head == W64_RIFF:
        return _of_blocks(_w64_blocks(file, start), size, W64_DATA, (W64_RIFF,))
    if head[:4] == b"FORM":
        return _of_blocks(_iff_blocks(file, start + 12, ">"), size, b"SSND", (b"FORM",))
    if head[:4] == b"caff":
        return _of_blocks(_caf_blocks(file, start + 8), size, b"data", (b"caff",))
    if head[4:8] in MP4_BLOCKS:
        return _of_blocks(_mp4_blocks(file, start, size), size, b"mdat", (b"ftyp",))
    if head[:4] == b"OggS":
        return _of_ogg(file, size)
    return Structure()


def mp3_header(file: BinaryIO) -> Mp3Header | None:
    """The Xing, Info or VBRI header of an MP3 file, if it has one near its beginning."""
    file.seek(0)
    start = id3_size(file.read(10))
    file.seek(start)
    head = file.read(MP3_HEAD_BYTES)
    for mark in (b"Xing", b"Info"):
        at = head.find(mark)
        if 0 <= at <= len(head) - 16:
            flags, first, second = struct.unpack_from(">III", head, at + 4)
            frames = first if flags & 1 else None
            n_bytes = (second if flags & 1 else first) if flags & 2 else None
            return Mp3Header(frames, n_bytes, start + max(head.rfind(b"\xff", 0, at), 0))
    at = head.find(b"VBRI")
    if 0 <= at <= len(head) - 18:
        n_bytes, frames = struct.unpack_from(">II", head, at + 10)
        return Mp3Header(frames, n_bytes, start + max(head.rfind(b"\xff", 0, at), 0))
    return None


def id3_size(head: bytes) -> int:
    """The size in bytes of the ID3v2 tag that begins here; 0 if there is none."""
    if len(head) < 10 or head[:3] != b"ID3" or any(byte & 0x80 for byte in head[6:10]):
        return 0
    size = 10
    for shift, byte in zip((21, 14, 7, 0), head[6:10], strict=True):
        size += byte << shift
    return size


def tag_bytes(data: bytes) -> int:
    """How many bytes of what lies between frames are tags, or the header frame of a file that was joined on."""
    total = position = 0
    while position < len(data):
        size = _tag_size(data[position:])
        total += min(size, len(data) - position)
        position += size
        if not size:
            marks = (data.find(mark, position + 1) for mark in (b"ID3", b"TAG", b"APETAGEX", b"LYRICSBEGIN", b"\xff"))
            position = min((at for at in marks if at > 0), default=len(data))
    return total


def _tag_size(data: bytes) -> int:
    if data.startswith(b"ID3"):
        return id3_size(data[:10])
    if data.startswith(b"APETAGEX") and len(data) >= 16:
        return int.from_bytes(data[12:16], "little") + 32
    if data.startswith(b"LYRICSBEGIN"):
        end = data.find(b"LYRICS200")
        return end + 9 if end >= 0 else 0
    if data.startswith(b"TAG"):
        return 128
    if data[:1] == b"\xff" and any(mark in data[4:48] for mark in (b"Xing", b"Info", b"VBRI")):
        # Such a frame is as long as its successor is far away, or the rest.
        following = data.find(b"ID3", 4)
        return following if following > 0 else len(data)
    return 0


def _is_wave(file: BinaryIO, start: int) -> bool:
    file.seek(start + 8)
    return file.read(4) == b"WAVE"


def _of_wave(file: BinaryIO, start: int, size: int) -> Structure:
    file.seek(start)
    magic = file.read(4)
    order = ">" if magic == b"RIFX" else "<"
    long_size: int | None = None
    data_end: int | None = None
    for block in _iff_blocks(file, start + 12, order):
        if block.name in (b"RIFF", b"RIFX", b"RF64", b"BW64") and data_end is not None:
            return Structure(ends_at=block.start) if _is_wave(file, block.start) else Structure()
        if data_end is not None and not _is_chunk(block, size):
            if _begins_another_file(_read_at(file, block.start, 12)):
                return Structure(ends_at=block.start)
            # Samples go on after the size that is stated.
            return Structure(ignores_length=True)
        if block.name == b"ds64":
            file.seek(block.data_start + 8)
            long_size = int.from_bytes(file.read(8), "little")
        if block.name == b"data":
            stated = block.end - block.data_start if block.end is not None else 0
            if magic in (b"RF64", b"BW64") and long_size is not None:
                stated = long_size
            if stated == 0 and block.data_start < size and start == 0:
                return Structure(ignores_length=True)
            if stated >= MIN_UNKNOWN_SIZE and block.data_start + stated > size and long_size is None:
                return Structure(ignores_length=True)
            data_end = block.data_start + stated
            if data_end > size:
                return Structure(missing_bytes=data_end - size)
    return Structure()


def _begins_another_file(head: bytes) -> bool:
    """Whether a file of another format begins with these bytes; of MP3 without a tag, the mark of a frame."""
    is_mp3_frame = len(head) > 2 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2 and head[2] & 0xF0 not in (0x00, 0xF0)
    return head.startswith((b"ID3", b"OggS", b"fLaC")) or head[4:8] == b"ftyp" or is_mp3_frame


def _is_chunk(block: _Block, size: int) -> bool:
    return all(32 <= byte < 127 for byte in block.name) and block.end is not None and block.end <= size + 1


def _of_blocks(blocks: Iterator[_Block], size: int, data: bytes, starts: tuple[bytes, ...]) -> Structure:
    seen = False
    for block in blocks:
        if seen and block.name in starts:
            return Structure(ends_at=block.start)
        seen = seen or block.name == data
        if block.name == data and block.end is not None and block.end > size:
            return Structure(missing_bytes=block.end - size)
    return Structure()


def _read_at(file: BinaryIO, position: int, size: int) -> bytes:
    """Nothing where sizes that are forged lead out of the file."""
    if not 0 <= position < os.fstat(file.fileno()).st_size:
        return b""
    file.seek(position)
    return file.read(size)


def _iff_blocks(file: BinaryIO, start: int, order: str) -> Iterator[_Block]:
    for _ in range(MAX_BLOCKS):
        head = _read_at(file, start, 8)
        if len(head) < 8:
            return
        length = struct.unpack(f"{order}I", head[4:])[0]
        end = start + 8 + length
        yield _Block(head[:4], start, start + 8, end)
        start = end + length % 2


def _w64_blocks(file: BinaryIO, start: int) -> Iterator[_Block]:
    position = start
    for _ in range(MAX_BLOCKS):
        head = _read_at(file, position, 24)
        if len(head) < 24:
            return
        length = int.from_bytes(head[16:], "little")
        yield _Block(head[:16], position, position + 24, position + length)
        if length < 24:
            return
        position += 40 if position == start else (length + 7) // 8 * 8


def _caf_blocks(file: BinaryIO, start: int) -> Iterator[_Block]:
    for _ in range(MAX_BLOCKS):
        head = _read_at(file, start, 12)
        if len(head) < 12:
            return
        length = int.from_bytes(head[4:], "big", signed=True)
        if length < 0:
            return
        yield _Block(head[:4], start, start + 12, start + 12 + length)
        start += 12 + length


def _mp4_blocks(file: BinaryIO, start: int, size: int) -> Iterator[_Block]:
    for _ in range(MAX_BLOCKS):
        head = _read_at(file, start, 16)
        if len(head) < 8:
            return
        length = int.from_bytes(head[:4], "big")
        if length == 1 and len(head) == 16:
            length = int.from_bytes(head[8:], "big")
        if length == 0:
            length = size - start
        if length < 8 or head[4:8] == b"\0\0\0\0":
            return
        yield _Block(head[4:8], start, start + 8, start + length)
        start += length


def _of_ogg(file: BinaryIO, size: int) -> Structure:
    """A file that was cut within its last page: the page's header tells how long it should be."""
    file.seek(max(0, size - OGG_TAIL_BYTES))
    tail = file.read(OGG_TAIL_BYTES)
    at = tail.rfind(b"OggS")
    header = tail[at : at + OGG_HEADER_BYTES]
    if at < 0 or len(header) < OGG_HEADER_BYTES:
        return Structure(missing_bytes=OGG_HEADER_BYTES - len(header) if at >= 0 else 0)
    n_segments = header[26]
    segments = tail[at + OGG_HEADER_BYTES : at + OGG_HEADER_BYTES + n_segments]
    page_end = at + OGG_HEADER_BYTES + n_segments + sum(segments)
    return Structure(missing_bytes=max(0, page_end - len(tail)))
