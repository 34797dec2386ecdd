"""The peak of resident memory while a file of three hours is transcribed with default settings."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from librarian_pipeline.settings import AudioSettings
from librarian_pipeline.speech.decode import decode
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ
from librarian_pipeline_tests.benchmarks.measuring import Figure

NAME = "memory"
AUDIO = Path(__file__).absolute().parents[2] / "data" / "audio"
SPOKEN = ("ep01", "ep02", "ep03")
MINUTES, QUICK_MINUTES = 180, 30
BOUND_MB = 1_500
BIT_RATE = 16_000

# Linux's `ru_maxrss` is that of the parent where it was larger when the process began; `VmHWM` is the process's own.
PEAK_CODE = """
import resource, sys
from pathlib import Path
from librarian_pipeline.settings import Settings
from librarian_pipeline.speech.transcript import transcribe_file

found = transcribe_file(Path(sys.argv[1]), "long", "en", Settings(whisper={"model": sys.argv[2]}, audio={"settle_s": 0}))
assert found.segments.num_rows > 10
status = Path("/proc/self/status")
if status.exists():
    print(next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) * 1_024)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def run(quick: bool) -> list[Figure]:
    """Half an hour and the smaller model if `quick`."""
    minutes, model = (QUICK_MINUTES, "tiny.en") if quick else (MINUTES, "base")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.opus"
        write_long(path, minutes)
        peak_mb = _peak_bytes(path, model) / 1e6
    return [Figure("peak of memory", f"{minutes} minutes, {model}", f"{peak_mb:,.0f} MB", f"{BOUND_MB:,} MB")]


def write_long(path: Path, minutes: int) -> None:
    """Silence, with some minutes of speech at the beginning, in the middle and at the end."""
    with path.open("wb") as file, av.open(file, "w", format="ogg") as output:
        stream = output.add_stream("libopus", rate=SAMPLE_RATE_HZ, layout="mono")
        stream.bit_rate = BIT_RATE
        for second in _seconds(minutes * 60):
            frame = av.AudioFrame.from_ndarray(second.reshape(1, -1), format="s16", layout="mono")
            frame.sample_rate = SAMPLE_RATE_HZ
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


def _seconds(n_seconds: int) -> Iterator[npt.NDArray[np.int16]]:
    spoken = [decode(AUDIO / f"{episode}.opus", AudioSettings()).samples for episode in SPOKEN]
    lengths = [samples.size // SAMPLE_RATE_HZ for samples in spoken]
    starts = [0, (n_seconds - lengths[1]) // 2, n_seconds - lengths[2]]
    silence = np.zeros(SAMPLE_RATE_HZ, np.int16)
    for second in range(n_seconds):
        for samples, start, length in zip(spoken, starts, lengths, strict=True):
            if start <= second < start + length:
                at = (second - start) * SAMPLE_RATE_HZ
                yield samples[at : at + SAMPLE_RATE_HZ].astype(np.int16, copy=False)
                break
        else:
            yield silence


def _peak_bytes(path: Path, model: str) -> int:
    command = [sys.executable, "-c", PEAK_CODE, str(path), model]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    # `ru_maxrss` is in bytes on macOS.
    return int(done.stdout)
