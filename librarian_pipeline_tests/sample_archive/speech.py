"""Render a script as speech: one sentence at a time, so that every sentence's place is known exactly.

Rain or music under the speech and a melody before it are synthesised too.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .scripts import Line, SampleError, Script, TimedLine

RATE = 24_000
BYTES_PER_MS = RATE * 2 // 1000
EDGE_MS = 200
SENTENCE_PAUSE_MS = 320
TURN_PAUSE_MS = 450
PARAGRAPH_PAUSE_MS = 600
LENGTH_TOLERANCE_MS = 300
ENGINES = {"flite": "flite", "festival": "text2wave"}

# How far a bed lies below the speech.
BED_DB = {"rain": 22, "music": 24}
BED_FADE_MS = 1_000
RAIN_SEED = 7
RAIN_BAND_HZ = (300, 3_000)
CHORD_MS = 6_000
# Notes are semitones above A, 220 Hz.
CHORDS = ((0, 3, 7), (-4, 0, 3), (-9, -5, -2), (-2, 2, 5))
JINGLE = (3, 7, 10, 12, 10, 7, 5, 3)
JINGLE_NOTE_MS = 560
JINGLE_MS = 5_000
JINGLE_PAUSE_MS = 2_000
JINGLE_LEVEL = 9_000

Samples = npt.NDArray[np.float64]


def run(command: list[str], stdin: bytes = b"") -> bytes:
    """Run a tool and return what it wrote to its standard output."""
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise SampleError(f"{command[0]} failed: {last[0]}")
    return done.stdout


def check_tools(script: Script) -> None:
    """Fail before any work is done if a tool that this script needs is missing."""
    wanted = {"sox", "ffmpeg"} | {tool_of(voice) for voice in script.voices.values()}
    missing = sorted(tool for tool in wanted if shutil.which(tool) is None)
    if missing:
        raise SampleError(
            f"{script.id}: not installed: {', '.join(missing)} (Debian: apt-get install flite festival "
            "festvox-us-slt-hts festival-czech festvox-czech-machac sox ffmpeg)"
        )
    flite_voices = {name for voice in script.voices.values() if (name := voice.removeprefix("flite:")) != voice}
    # Flite says nothing about an unknown voice and speaks with its default one.
    if flite_voices and (unknown := flite_voices - set(run(["flite", "-lv"]).decode().split())):
        raise SampleError(f"{script.id}: flite has no voice called {', '.join(sorted(unknown))}")


def tool_of(voice: str) -> str:
    """Return the program behind a voice such as ``flite:slt``."""
    engine = voice.partition(":")[0]
    if engine not in ENGINES:
        raise SampleError(f"voice {voice!r}: the engine must be one of {', '.join(ENGINES)}")
    return ENGINES[engine]


def synthesise(text: str, voice: str, target: Path) -> None:
    """Speak one sentence into a WAV file, in whatever sample rate the voice has."""
    engine, _, name = voice.partition(":")
    source = target.with_suffix(".txt")
    # Festival reads bytes, and its Czech voices read them as ISO-8859-2.
    encoding = "iso-8859-2" if engine == "festival" else "ascii"
    try:
        source.write_bytes(text.encode(encoding))
    except UnicodeEncodeError as error:
        raise SampleError(f"{voice} cannot say {error.object[error.start]!r} in: {text}") from error
    if engine == "flite":
        run(["flite", "-voice", name, "-f", str(source), "-o", str(target)])
    else:
        run(["text2wave", "-eval", f"(voice_{name})", str(source), "-o", str(target)])
    # Festival exits with 0 even when the voice is not installed; it just writes no file.
    if not target.is_file() or target.stat().st_size < 1000:
        raise SampleError(f"{voice} said nothing for: {text}")


def clean_pcm(wav: Path) -> bytes:
    """Return a sentence as raw 16-bit mono at the common rate, trimmed and brought to one level."""
    trim = ["silence", "1", "0.02", "0.3%", "reverse"]
    effects = ["rate", str(RATE), *trim, *trim, "norm", "-4"]
    raw = ["-t", "raw", "-e", "signed", "-b", "16", "-c", "1", "-"]
    return run(["sox", "-D", str(wav), *raw, *effects])


def pause_before(line: Line, previous: Line | None) -> int:
    """Return the silence in milliseconds that separates a sentence from the one before."""
    if previous is None:
        return EDGE_MS
    if line.opens_paragraph:
        return PARAGRAPH_PAUSE_MS
    return SENTENCE_PAUSE_MS if line.speaker == previous.speaker else TURN_PAUSE_MS


def tone(semitones: int, length_ms: int) -> Samples:
    """Return a soft tone of amplitude one: a sine and a little of its octave."""
    turns = 220 * 2 ** (semitones / 12) * np.arange(length_ms * RATE // 1000) / RATE
    return 0.8 * np.sin(2 * np.pi * turns) + 0.2 * np.sin(4 * np.pi * turns)


def rain(n: int) -> Samples:
    """Return filtered noise that is the same each time."""
    spectrum = np.fft.rfft(np.random.RandomState(RAIN_SEED).standard_normal(n))
    low, high = RAIN_BAND_HZ
    hertz = np.fft.rfftfreq(n, 1 / RATE)
    return np.fft.irfft(spectrum / np.sqrt(1 + (low / np.maximum(hertz, 1)) ** 4 + (hertz / high) ** 4), n)


def music(n: int) -> Samples:
    """Return slow chords, each of which swells up while the one before dies away."""
    step = CHORD_MS * RATE // 1000
    swell = np.sin(np.pi * np.arange(2 * step) / (2 * step)) ** 2
    played = np.zeros(n + 3 * step)
    # The first chord begins before the start, so that it is there at once.
    for index, start in enumerate(range(0, n + step, step)):
        for semitones in CHORDS[index % len(CHORDS)]:
            played[start : start + 2 * step] += swell * tone(semitones, 2 * CHORD_MS)
    return played[step : step + n]


def jingle() -> bytes:
    """Return a little melody of plucked notes, and the silence after it."""
    melody = np.zeros(JINGLE_MS * RATE // 1000)
    for index, semitones in enumerate(JINGLE):
        start = index * JINGLE_NOTE_MS * RATE // 1000
        note = tone(semitones + 12, JINGLE_MS)[: len(melody) - start]
        seconds = np.arange(len(note)) / RATE
        melody[start:] += note * np.minimum(seconds / 0.01, 1) * np.exp(-3 * seconds)
    melody[-RATE // 2 :] *= np.linspace(1, 0, RATE // 2)
    return to_pcm(melody * JINGLE_LEVEL) + bytes(JINGLE_PAUSE_MS * BYTES_PER_MS)


def with_bed(pcm: bytes, bed: str) -> bytes:
    """Lay rain or music under speech, from its first to its last sample."""
    speech = np.frombuffer(pcm, dtype="<i2").astype(np.float64)
    under = {"rain": rain, "music": music}[bed](len(speech))
    ramp = np.arange(len(speech)) / (BED_FADE_MS * RATE // 1000)
    under *= np.minimum(1, np.minimum(ramp, ramp[::-1]))
    # Pauses are exact zeros, and don't count.
    level = rms(speech[speech != 0]) * 10 ** (-BED_DB[bed] / 20)
    return to_pcm(speech + under * level / rms(under))


def rms(samples: Samples) -> float:
    """Return the effective level of samples."""
    return float(np.sqrt(np.mean(samples**2)))


def to_pcm(samples: Samples) -> bytes:
    """Return samples as raw 16-bit numbers."""
    return np.rint(samples).clip(-32_768, 32_767).astype("<i2").tobytes()


def speak(script: Script, folder: Path) -> tuple[bytes, list[TimedLine]]:
    """Say the whole script; return the samples and the timeline."""
    opening = jingle() if script.jingle else b""
    pcm = bytearray(opening)
    times: list[TimedLine] = []
    previous: Line | None = None
    for index, line in enumerate(script.lines):
        wav = folder / f"{index:04d}.wav"
        synthesise(line.text, script.voices[line.speaker], wav)
        sentence = clean_pcm(wav)
        pcm += bytes(pause_before(line, previous) * BYTES_PER_MS)
        start_ms = len(pcm) // BYTES_PER_MS
        pcm += sentence
        end_ms = len(pcm) // BYTES_PER_MS
        times.append(TimedLine(start_ms, end_ms, line.text, script.speakers[line.speaker]))
        previous = line
    pcm += bytes(EDGE_MS * BYTES_PER_MS)
    if script.bed:
        pcm[len(opening) :] = with_bed(bytes(pcm[len(opening) :]), script.bed)
    return bytes(pcm), times


def encode(pcm: bytes, target: Path) -> None:
    """Write samples as a mono Opus file of speech quality, the same bytes on every run."""
    source = ["-f", "s16le", "-ar", str(RATE), "-ac", "1", "-i", "-"]
    codec = ["-c:a", "libopus", "-b:a", "20k", "-application", "voip"]
    exact = ["-map_metadata", "-1", "-fflags", "+bitexact", "-flags:a", "+bitexact"]
    run(["ffmpeg", "-v", "error", "-y", *source, *codec, *exact, str(target)], pcm)


def decoded_ms(path: Path) -> int:
    """Return the length of a file as it really decodes."""
    raw = ["-f", "s16le", "-ar", str(RATE), "-ac", "1", "-"]
    return len(run(["ffmpeg", "-v", "error", "-i", str(path), *raw])) // BYTES_PER_MS


def render_audio(script: Script, target: Path) -> list[TimedLine]:
    """Write an episode's audio file and return its timeline."""
    with tempfile.TemporaryDirectory() as folder:
        pcm, times = speak(script, Path(folder))
    encode(pcm, target)
    length = decoded_ms(target)
    if abs(length - times[-1].end_ms) > LENGTH_TOLERANCE_MS:
        raise SampleError(f"{script.id}: decodes to {length} ms, but the last sentence ends at {times[-1].end_ms} ms")
    return times
