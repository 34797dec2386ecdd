"""Episode scripts and their timelines: what is said, by whom, and when.

A script is YAML front matter followed by one sentence a line. A line may start with ``Speaker: ``;
without it the last speaker goes on. A blank line is a longer pause.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

SCRIPTS_DIR = Path(__file__).absolute().parent / "scripts"
RENDERS = ("opus", "vtt", "srt", "json")
BEDS = ("rain", "music")


class SampleError(Exception):
    """Something in the sources or on this machine that the author can put right."""


@dataclass(frozen=True)
class Line:
    """One sentence of a script."""

    speaker: str
    text: str
    opens_paragraph: bool


@dataclass(frozen=True)
class Script:
    """One episode as written."""

    id: str
    title: str
    language: str
    render: str
    speakers: dict[str, str]
    voices: dict[str, str]
    lines: tuple[Line, ...]
    bed: str | None = None
    """what is heard under the speech, one of `BEDS`"""
    jingle: bool = False
    """whether a melody comes before it"""


@dataclass(frozen=True)
class TimedLine:
    """One sentence on the timeline of the finished episode."""

    start_ms: int
    end_ms: int
    text: str
    speaker: str


def split_front_matter(source: str, name: str) -> tuple[dict[str, Any], str]:
    """Return the YAML mapping at the top of a file and the text below it."""
    parts = source.split("---\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise SampleError(f"{name}: expected front matter between two '---' lines")
    return dict(yaml.safe_load(parts[1])), parts[2]


def parse_lines(body: str, speakers: Iterable[str]) -> tuple[Line, ...]:
    """Split the body of a script into sentences with their speakers."""
    names = list(speakers)
    prefix = re.compile("(" + "|".join(map(re.escape, names)) + r"): (.+)")
    speaker = names[0]
    after_blank = True
    lines: list[Line] = []
    for raw in body.splitlines():
        text = raw.strip()
        if not text:
            after_blank = True
            continue
        if match := prefix.fullmatch(text):
            speaker, text = match.group(1), match.group(2)
        lines.append(Line(speaker, text, after_blank))
        after_blank = False
    return tuple(lines)


def load_script(episode: str, folder: Path = SCRIPTS_DIR) -> Script:
    """Read and check one script."""
    path = folder / f"{episode}.md"
    if not path.is_file():
        raise SampleError(f"{path}: no such script")
    head, body = split_front_matter(path.read_text(encoding="utf-8"), path.name)
    speakers = {str(k): str(v) for k, v in head["speakers"].items()}
    voices = {str(k): str(v) for k, v in head.get("voices", {}).items()}
    if head["id"] != episode or head["render"] not in RENDERS:
        raise SampleError(f"{path.name}: 'id' must be {episode} and 'render' one of {RENDERS}")
    if head["render"] == "opus" and set(voices) != set(speakers):
        raise SampleError(f"{path.name}: every speaker needs a voice")
    bed, jingle = head.get("bed"), head.get("jingle", False)
    if bed not in (None, *BEDS) or not isinstance(jingle, bool):
        raise SampleError(f"{path.name}: 'bed' must be one of {BEDS}, and 'jingle' true or false")
    if head["render"] != "opus" and (bed or jingle):
        raise SampleError(f"{path.name}: 'bed' and 'jingle' are for audio only")
    return Script(
        id=episode,
        title=str(head["title"]),
        language=str(head["language"]),
        render=str(head["render"]),
        speakers=speakers,
        voices=voices,
        lines=parse_lines(body, speakers),
        bed=bed,
        jingle=jingle,
    )


def episode_ids(folder: Path = SCRIPTS_DIR) -> list[str]:
    """Return the ids of all scripts, sorted."""
    return sorted(path.stem for path in folder.glob("*.md"))


def write_times(episode: str, times: list[TimedLine], folder: Path = SCRIPTS_DIR) -> None:
    """Record when each sentence is heard, so that gold spans can be resolved without speech tools."""
    rows = ",\n".join(json.dumps(asdict(line), ensure_ascii=False) for line in times)
    (folder / f"{episode}.times.json").write_text(f"[\n{rows}\n]\n", encoding="utf-8")


def load_times(episode: str, folder: Path = SCRIPTS_DIR) -> list[TimedLine]:
    """Read the timeline that the last build of an episode recorded."""
    path = folder / f"{episode}.times.json"
    if not path.is_file():
        raise SampleError(f"{path.name}: missing; build {episode} first")
    return [TimedLine(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
