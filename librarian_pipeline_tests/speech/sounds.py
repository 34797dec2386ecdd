"""Audio files for the tests, made on the spot."""

from pathlib import Path

import av
import numpy as np

from librarian_pipeline.settings import AudioSettings
from librarian_pipeline.speech.decode import DecodedAudio, decode

# "The river froze twice in nineteen sixty three."
SPOKEN = Path(__file__).parent / "spoken.opus"


def tone(seconds: float, rate_hz: int = 16_000) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate_hz)) / rate_hz)).astype(np.float32)


def decoded(path: Path, **limits: float) -> DecodedAudio:
    return decode(path, AudioSettings.model_validate(limits))


def mp3(path: Path, seconds: float = 20, rate_hz: int = 44_100, channels: int = 2) -> Path:
    return write_tone(path, "mp3", "libmp3lame", rate_hz, channels, seconds)


def write_sound(path: Path, sound: np.ndarray, container: str, codec: str, rate_hz: int, layout: str = "mono") -> Path:
    """`sound` in [-1, 1]: one row of samples for every channel."""
    samples = np.ascontiguousarray((np.atleast_2d(sound) * 32_767).astype(np.int16).T).reshape(1, -1)
    with path.open("wb") as file, av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate_hz, layout=layout)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout=layout)
        frame.sample_rate = rate_hz
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def write_tone(path: Path, container: str, codec: str, rate_hz: int, channels: int, seconds: float, **metadata: str) -> Path:
    layout = "mono" if channels == 1 else "stereo"
    samples = np.repeat((tone(seconds, rate_hz) * 32_767).astype(np.int16), channels).reshape(1, -1)
    with path.open("wb") as file, av.open(file, "w", format=container) as output:
        output.metadata.update(metadata)
        stream = output.add_stream(codec, rate=rate_hz, layout=layout)
        for start in range(0, samples.shape[1], 1_024 * channels):
            block = np.ascontiguousarray(samples[:, start : start + 1_024 * channels])
            frame = av.AudioFrame.from_ndarray(block, format="s16", layout=layout)
            frame.sample_rate = rate_hz
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def write_picture(path: Path, container: str, codec: str, pixels: str, n_frames: int) -> Path:
    with path.open("wb") as file, av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=5)
        stream.width, stream.height, stream.pix_fmt = 32, 32, pixels
        for _ in range(n_frames):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8))))
        output.mux(stream.encode(None))
    return path


def silence(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * 16_000), np.float32)


def white_noise(seconds: float) -> np.ndarray:
    return (0.1 * np.random.default_rng(7).standard_normal(round(seconds * 16_000))).astype(np.float32)


def music(seconds: float) -> np.ndarray:
    """A tune of plucked notes over a swelling chord."""
    generator = np.random.default_rng(8)
    at = np.arange(8_000) / 16_000
    tune = [np.sin(2 * np.pi * hz * at) * np.exp(-at * 5) for hz in generator.choice([220, 262, 330, 392, 523], 240)]
    times = np.arange(round(seconds * 16_000)) / 16_000
    chord = sum(np.sin(2 * np.pi * hz * times) * (1 + np.sin(4 * np.pi * times + hz)) for hz in (220, 277.2, 329.6))
    return (0.2 * np.concatenate(tune)[: times.size] + 0.05 * chord).astype(np.float32)


def drone(seconds: float) -> np.ndarray:
    """A low tone that swells four times a second, as syllables do: voice activity detection takes it for speech."""
    times = np.arange(round(seconds * 16_000)) / 16_000
    return (0.3 * np.sin(2 * np.pi * 150 * times) * (1 + np.sin(2 * np.pi * 4 * times))).astype(np.float32)


def as_int16(samples: np.ndarray) -> np.ndarray:
    return np.round(samples * 32_767).astype(np.int16)
