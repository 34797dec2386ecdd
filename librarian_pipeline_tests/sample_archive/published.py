"""Write a script as a published transcript, with the times a calm speaker would have needed."""

from __future__ import annotations

import json
from pathlib import Path

from .scripts import SampleError, Script, TimedLine

# About 150 English words a minute.
MS_PER_CHARACTER = 76
MIN_CUE_MS = 3_000
MAX_CUE_MS = 9_000
GAP_MS = 180
PARAGRAPH_GAP_MS = 900


def lay_out(script: Script) -> list[TimedLine]:
    """Give every sentence a cue of its own, as long as its text takes to say."""
    clock = 0
    times: list[TimedLine] = []
    for line in script.lines:
        length = max(MIN_CUE_MS, len(line.text) * MS_PER_CHARACTER)
        if length > MAX_CUE_MS:
            raise SampleError(f"{script.id}: a cue of {length} ms is too long: {line.text}")
        clock += PARAGRAPH_GAP_MS if line.opens_paragraph else GAP_MS
        times.append(TimedLine(clock, clock + length, line.text, script.speakers[line.speaker]))
        clock += length
    return times


def clock_time(ms: int, decimal: str) -> str:
    """Format milliseconds as hh:mm:ss and a fraction after the given separator."""
    seconds, fraction = divmod(ms, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{decimal}{fraction:03d}"


def to_vtt(times: list[TimedLine]) -> str:
    """Format a timeline as WebVTT with voice tags."""
    cues = [f"{clock_time(t.start_ms, '.')} --> {clock_time(t.end_ms, '.')}\n<v {t.speaker}>{t.text}\n" for t in times]
    return "WEBVTT\n\n" + "\n".join(cues)


def to_srt(times: list[TimedLine]) -> str:
    """Format a timeline as SubRip with the speaker before the text."""
    cues = [
        f"{number}\n{clock_time(t.start_ms, ',')} --> {clock_time(t.end_ms, ',')}\n{t.speaker}: {t.text}\n"
        for number, t in enumerate(times, 1)
    ]
    return "\n".join(cues)


def to_json(times: list[TimedLine]) -> str:
    """Format a timeline as a Podcasting 2.0 JSON transcript."""
    segments = [
        {"speaker": t.speaker, "startTime": t.start_ms / 1000, "endTime": t.end_ms / 1000, "body": t.text} for t in times
    ]
    return json.dumps({"version": "1.0.0", "segments": segments}, ensure_ascii=False, indent=1) + "\n"


WRITERS = {"vtt": to_vtt, "srt": to_srt, "json": to_json}


def write_transcript(script: Script, target: Path) -> list[TimedLine]:
    """Write an episode's published transcript and return its timeline."""
    times = lay_out(script)
    target.write_text(WRITERS[script.render](times), encoding="utf-8")
    return times
