"""Frames of any format to mono samples at 16 kHz, with the level and the values of faster-whisper's own decoder."""

import av
import numpy as np
import numpy.typing as npt
from av.audio.fifo import AudioFifo
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler

from librarian_pipeline.speech.buffer import SampleBuffer
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ

# Outside of these no recording is made; a forged rate would stretch a small file to days, or a block of it to gigabytes.
MIN_RATE_HZ = 1_000
MAX_RATE_HZ = 3_000_000
# The resampler can mix layouts that it knows; of more channels it knows none for most counts.
MAX_MIXED_CHANNELS = 8
# Few calls to the resampler cost less; within a second, channels hardly turn from cancelling each other to not doing so.
BLOCK_S = 1
# A mix with less than a hundredth of the power of its channels (-20 dB), where these are louder than -60 dB of full scale.
CANCELLED_SHARE = 0.01
AUDIBLE_POWER = 1e-6

FULL_SCALE = {"u8": 128, "s16": 1 << 15, "s32": 1 << 31, "flt": 1, "dbl": 1}


def unusable(frame: AudioFrame) -> str | None:
    """What about a frame no recording would have; None where all is well."""
    return None if MIN_RATE_HZ <= frame.sample_rate <= MAX_RATE_HZ else f"a sample rate of {frame.sample_rate} Hz"


class Mixdown:
    """Appends frames to a buffer. The format may change midway, as where files were joined end to end."""

    def __init__(self, buffer: SampleBuffer) -> None:
        self._buffer = buffer
        self._resampler: AudioResampler | None = None
        self._fifo = AudioFifo()
        self._format: tuple[str, str, int] | None = None
        self._start_s = 0.0
        self._taken = 0
        self.cancelled_s = 0.0
        """Seconds in which the channels cancelled each other, so that the loudest one was taken instead of the mix."""
        self.lost: list[tuple[float, float]] = []
        """Where silence stands for what couldn't be mixed, and for how many seconds."""

    @property
    def end_s(self) -> float:
        """Where the next frame goes, in seconds from the beginning of the buffer."""
        return self._start_s + (self._taken / self._format[2] if self._format else 0.0)

    def add(self, frame: AudioFrame) -> bool:
        """Returns whether all could be mixed. Where not, silence stands for it (see `lost`), and the next may be fine."""
        n_lost = len(self.lost)
        until_s = self.end_s + frame.samples / frame.sample_rate
        try:
            self._take(frame)
        except (av.error.FFmpegError, ValueError):
            self.flush()
            self._fill(until_s)
        return len(self.lost) == n_lost

    def add_silence(self, n_samples: int) -> None:
        self.flush()
        self._buffer.append_silence(n_samples)
        self._start_s = self._buffer.size / SAMPLE_RATE_HZ

    def flush(self) -> None:
        """Brings everything that was added into the buffer, or silence of its length."""
        until_s = self.end_s
        try:
            self._mix_block()
            if self._resampler is not None:
                self._append(self._resampler.resample(None))
        except (av.error.FFmpegError, ValueError):
            # It refuses everything after a frame that it can't take, even to be flushed.
            self._fill(until_s)
        self._restart()

    def _take(self, frame: AudioFrame) -> None:
        if frame.layout.nb_channels > MAX_MIXED_CHANNELS:
            frame = _averaged(frame)
        frame_format = (frame.format.name, frame.layout.name, frame.sample_rate)
        if frame_format != self._format:
            self.flush()
            self._format = frame_format
            self._resampler = AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE_HZ)
        # Times that jump, as they do after damage, are refused here; where a frame belongs is seen to before.
        frame.pts = None
        self._fifo.write(frame)
        self._taken += frame.samples
        if self._fifo.samples >= BLOCK_S * frame.sample_rate:
            self._mix_block()

    def _mix_block(self) -> None:
        block = self._fifo.read()
        if block is None or self._resampler is None:
            return
        if block.layout.nb_channels > 1 and _cancels_out(block):
            self.cancelled_s += block.samples / block.sample_rate
            _spread_loudest(block)
        self._append(self._resampler.resample(block))

    def _fill(self, until_s: float) -> None:
        start = self._buffer.size
        n_samples = round(until_s * SAMPLE_RATE_HZ) - start
        if n_samples > 0:
            self._buffer.append_silence(n_samples)
            self.lost.append((start / SAMPLE_RATE_HZ, n_samples / SAMPLE_RATE_HZ))
        self._restart()

    def _append(self, frames: list[AudioFrame]) -> None:
        for frame in frames:
            self._buffer.append(frame.to_ndarray().reshape(-1).astype(np.int16, copy=False))

    def _restart(self) -> None:
        self._resampler = None
        self._fifo = AudioFifo()
        self._format = None
        self._taken = 0
        self._start_s = self._buffer.size / SAMPLE_RATE_HZ


def _channels(frame: AudioFrame) -> npt.NDArray[np.float32]:
    """A row for each channel, in [-1, 1]."""
    name = frame.format.name.removesuffix("p")
    samples = frame.to_ndarray().astype(np.float32)
    rows = samples if frame.format.is_planar else samples.reshape(-1, frame.layout.nb_channels).T
    offset = 128 if name == "u8" else 0
    return (rows - offset) / np.float32(FULL_SCALE.get(name, 1))


def _cancels_out(block: AudioFrame) -> bool:
    rows = _channels(block)
    power = float(np.vdot(rows, rows)) / rows.size
    if power < AUDIBLE_POWER:
        return False
    mix = rows.mean(axis=0)
    # Channels that have nothing in common leave a mix of 1/n of their power, and those that are alike all of it.
    return bool(float(np.vdot(mix, mix)) / mix.size < CANCELLED_SHARE * power)


def _spread_loudest(block: AudioFrame) -> None:
    """Puts the loudest channel into every channel."""
    rows = _channels(block)
    loudest = int(np.square(rows).sum(axis=1).argmax())
    original = block.to_ndarray()
    if block.format.is_planar:
        one = original[loudest].tobytes()
        for plane in block.planes:
            plane.update(one + bytes(plane.buffer_size - len(one)))
        return
    n_channels = block.layout.nb_channels
    spread = np.repeat(original.reshape(-1, n_channels)[:, loudest], n_channels).tobytes()
    block.planes[0].update(spread + bytes(block.planes[0].buffer_size - len(spread)))


def _averaged(frame: AudioFrame) -> AudioFrame:
    mono = AudioFrame.from_ndarray(_channels(frame).mean(axis=0, keepdims=True), format="fltp", layout="mono")
    mono.sample_rate = frame.sample_rate
    return mono
