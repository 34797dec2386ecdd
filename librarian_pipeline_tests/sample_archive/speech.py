"""Render a script as speech: one sentence at a time, so that every sentence's place is known exactly."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from .scripts import Line, SampleError, Script, TimedLine

RATE = 24_000
BYTES_PER_MS = RATE * 2 // 1000
EDGE_MS = 200
SENTENCE_PAUSE_MS = 320
TURN_PAUSE_MS = 450
PARAGRAPH_PAUSE_MS = 600
LENGTH_TOLERANCE_MS = 300
ENGINES = {"flite": "flite", "festival": "text2wave"}


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


def speak(script: Script, folder: Path) -> tuple[bytes, list[TimedLine]]:
    """Say the whole script; return the samples and the timeline."""
    pcm = bytearray()
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
