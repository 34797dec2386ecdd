"""Where each frame belongs: gaps become silence, so that no later time shifts, unless they are beyond belief."""

import os
from fractions import Fraction
from typing import BinaryIO, Protocol

from av.audio.frame import AudioFrame

from librarian_pipeline.speech.damage import Damage
from librarian_pipeline.speech.mixdown import Mixdown
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ
from librarian_pipeline.speech.structure import MOST_SURPLUS_BYTES, Mp3Header, tag_bytes

# Below this, times are only rounded (Matroska's are whole milliseconds) or a clock drifts.
SMALLEST_GAP_S = 0.02
# A gap without a bad packet is a loss from here on: a whole page is missing, say.
SMALLEST_MISSING_S = 0.1
# Longer damage isn't bridged: forged or broken times would make hours of silence out of a small file.
LARGEST_GAP_S = 600.0
# Times that go back this far were begun anew, as where files were joined.
RESET_S = 1.0
STATED_TOLERANCE_S = 2.0
MOST_SKIPPED_BYTES = 1 << 20
MOST_RUN_BYTES = 1 << 25


class Packet(Protocol):
    """What is asked of a packet."""

    pts: int | None
    duration: int | None
    time_base: Fraction
    pos: int | None
    size: int

    def __bytes__(self) -> bytes: ...


class Placement(Protocol):
    """Tells where the frames of one file go on the timeline of what is decoded."""

    def bad(self, packet: Packet) -> None:
        """Takes note of a packet that can't be decoded."""

    def good(self, packet: Packet, frames: list[AudioFrame], following: Packet | None) -> None:
        """Puts silence where something is missing before the frames of a packet, which are added next."""

    def end_s(self, packet: Packet) -> float | None:
        """Where a packet ends, by its own time; None where it tells none."""

    def finish(self) -> None:
        """Takes note of what is missing at the end."""


class TimedPlacement:
    """For containers that tell the time of each packet."""

    def __init__(self, mixdown: Mixdown, damage: Damage, start_s: float | None, stated_s: float | None) -> None:
        """`start_s` is the time at which the file as a whole begins, `stated_s` how long it says it is."""
        self._bridge = _Bridge(mixdown, damage, stated_s)
        self._mixdown = mixdown
        self._damage = damage
        self._start_s = start_s
        self._origin_s: float | None = None
        self._bad = 0
        self._bad_end_s: float | None = None

    def bad(self, packet: Packet) -> None:
        self._bad += 1
        self._damage.bad_packets += 1
        if packet.pts is not None:
            self._bad_end_s = (packet.pts + (packet.duration or 0)) * float(packet.time_base)

    def good(self, packet: Packet, frames: list[AudioFrame], following: Packet | None) -> None:
        if not frames or frames[0].pts is None or frames[0].time_base is None:
            return
        # A time that the next packet goes back on is a slip, and not a gap.
        if following is not None and following.pts is not None and packet.pts is not None and following.pts < packet.pts:
            return
        time_s = frames[0].pts * float(frames[0].time_base)
        end_s = self._mixdown.end_s
        if self._origin_s is None:
            self._origin_s = self._first_origin(time_s) - end_s
        gap_s = time_s - self._origin_s - end_s
        if gap_s < -RESET_S or (gap_s > SMALLEST_GAP_S and not self._bridge.close(gap_s, self._is_loss(gap_s))):
            self._origin_s = time_s - end_s
        self._bad = 0

    def end_s(self, packet: Packet) -> float | None:
        if packet.pts is None or self._origin_s is None:
            return None
        return (packet.pts + (packet.duration or 0)) * float(packet.time_base) - self._origin_s

    def finish(self) -> None:
        if not self._bad:
            return
        end_s = self._mixdown.end_s
        lost_s = self._bad_end_s - self._origin_s - end_s if self._bad_end_s and self._origin_s is not None else 0.0
        self._damage.at_end(end_s, min(max(lost_s, 0.0), LARGEST_GAP_S))

    def _first_origin(self, time_s: float) -> float:
        """The beginning of the file as a whole, where that comes first: audio may begin after the picture does."""
        if self._start_s is None or not SMALLEST_MISSING_S < time_s - self._start_s <= LARGEST_GAP_S:
            return time_s
        return self._start_s

    def _is_loss(self, gap_s: float) -> bool:
        return self._bad > 0 or (gap_s >= SMALLEST_MISSING_S and self._mixdown.end_s > 0)


class CountedPlacement:
    """For formats without times, such as MP3: how many bytes lie between two frames tells how much is missing."""

    def __init__(
        self, mixdown: Mixdown, damage: Damage, file: BinaryIO, header: Mp3Header | None, stated_s: float | None
    ) -> None:
        """`header` is that of the file, if it has one, and `stated_s` the duration in it."""
        self._bridge = _Bridge(mixdown, damage, stated_s)
        self._mixdown = mixdown
        self._damage = damage
        self._file = file
        self._surplus = _surplus_bytes(file, header)
        self._expected_pos: int | None = None
        self._skipped = 0
        self._bad = 0
        self._bad_end = 0
        self._frame_s = 0.0
        self._good_bytes = 0
        self._good_s = 0.0
        self._first_s: float | None = None
        self._begins_s = mixdown.end_s

    def bad(self, packet: Packet) -> None:
        self._bad += 1
        self._bad_end = max(self._bad_end, (packet.pos or 0) + packet.size)

    def good(self, packet: Packet, frames: list[AudioFrame], following: Packet | None) -> None:
        if not packet.size:
            # It only brings out what the decoder has held back.
            return
        if packet.pos is not None:
            if self._bad:
                self._skipped += self._skipped_bytes(packet, packet.pos + self._skipped)
            start = packet.pos + self._skipped
            if self._expected_pos is not None and start > self._expected_pos:
                lost_s = self._lost_s(self._expected_pos, start)
                if lost_s:
                    self._bridge.close(lost_s, is_loss=True)
            elif self._bad:
                self._damage.bad_packets += self._bad
            self._expected_pos = start + packet.size
        self._bad = 0
        self._good_bytes += packet.size
        seconds = sum(frame.samples / frame.sample_rate for frame in frames if frame.sample_rate)
        self._good_s += seconds
        self._frame_s = seconds or self._frame_s

    def end_s(self, packet: Packet) -> float | None:
        if packet.pts is None:
            return None
        start_s = packet.pts * float(packet.time_base)
        self._first_s = start_s if self._first_s is None else self._first_s
        return self._begins_s + start_s - self._first_s + (packet.duration or 0) * float(packet.time_base)

    def finish(self) -> None:
        if not self._bad or self._expected_pos is None:
            self._damage.bad_packets += self._bad
            return
        lost_s = self._lost_s(self._expected_pos, self._bad_end)
        if lost_s:
            self._damage.at_end(self._mixdown.end_s, min(lost_s, LARGEST_GAP_S))

    def _skipped_bytes(self, packet: Packet, start: int) -> int:
        """How much later in the file a packet is than FFmpeg says, which doesn't count what it skips in raw AAC."""
        self._file.seek(start)
        found = self._file.read(MOST_SKIPPED_BYTES).find(bytes(packet))
        return max(found, 0)

    def _lost_s(self, start: int, end: int) -> float:
        """Seconds of audio that were in these bytes: whole frames, at the rate of the others.

        None in tags, and in bytes that the file has beyond what its header announces.
        """
        self._file.seek(start)
        foreign = tag_bytes(self._file.read(min(end - start, MOST_RUN_BYTES)))
        lost = end - start - foreign
        inserted = min(lost, self._surplus)
        self._surplus -= inserted
        if lost:
            self._damage.bad_packets += max(self._bad, 1)
        if not self._good_bytes or not self._frame_s:
            return 0.0
        n_frames = round((lost - inserted) * self._good_s / self._good_bytes / self._frame_s)
        return n_frames * self._frame_s


class _Bridge:
    """Puts silence into gaps, as far as they are plausible."""

    def __init__(self, mixdown: Mixdown, damage: Damage, stated_s: float | None) -> None:
        self._mixdown = mixdown
        self._damage = damage
        self._stated_s = stated_s
        self._silence_s = 0.0
        self._start_s = mixdown.end_s

    def close(self, gap_s: float, is_loss: bool) -> bool:
        """Returns whether the gap was believed. It is on record either way, if it is a loss."""
        at_s = self._mixdown.end_s
        if not self._is_plausible(gap_s, at_s - self._start_s):
            self._damage.unbridged(at_s, gap_s)
            return False
        self._mixdown.add_silence(round(gap_s * SAMPLE_RATE_HZ))
        self._silence_s += gap_s
        if is_loss:
            self._damage.bridged(at_s, gap_s)
        return True

    def _is_plausible(self, gap_s: float, so_far_s: float) -> bool:
        audio_s = so_far_s - self._silence_s
        if gap_s > LARGEST_GAP_S or self._silence_s + gap_s > LARGEST_GAP_S + audio_s:
            return False
        # What is longer than stated already was joined from several files, and the header is that of the first.
        is_within = self._stated_s is not None and so_far_s <= self._stated_s
        return not is_within or so_far_s + gap_s <= (self._stated_s or 0.0) + STATED_TOLERANCE_S


def _surplus_bytes(file: BinaryIO, header: Mp3Header | None) -> int:
    if header is None or not header.n_bytes:
        return 0
    surplus = os.fstat(file.fileno()).st_size - header.starts_at - header.n_bytes
    return surplus if 0 < surplus <= MOST_SURPLUS_BYTES else 0
