"""Resolve gold queries that quote the scripts into gold queries that name seconds.

Quotes survive a new recording; seconds do not. So people edit quotes, and this module finds the seconds.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from .scripts import SampleError, TimedLine, load_times, split_front_matter

QUERIES = Path(__file__).absolute().parent / "queries"
FIELDS = ("id", "query", "language", "kind", "split", "critical", "relevant")
KINDS = ("paraphrase", "keyword", "cross_lingual", "synthesis", "unanswerable")
TIME_MARK = re.compile(r"\[((?:\d+:)?\d{1,2}:\d{2})\]")


def clock(seconds: int) -> str:
    """Format whole seconds as mm:ss, from the hour on as h:mm:ss."""
    hours, rest = divmod(seconds, 3600)
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{second:02d}" if hours else f"{minutes:02d}:{second:02d}"


def find_quote(quote: str, times: list[TimedLine], where: str) -> int:
    """Return the index of the one sentence that holds a quote."""
    hits = [index for index, line in enumerate(times) if quote in line.text]
    if len(hits) != 1:
        raise SampleError(f"{where}: quote found {len(hits)} times, expected once: {quote!r}")
    return hits[0]


def quoted_lines(span: dict[str, str], times: list[TimedLine], where: str) -> list[TimedLine]:
    """Return the sentences that a span covers, first to last."""
    first = find_quote(span["from"], times, where)
    last = find_quote(span["to"], times, where) if "to" in span else first
    if last < first:
        raise SampleError(f"{where}: 'to' comes before 'from'")
    return times[first : last + 1]


def notes_sections(path: Path) -> dict[str, str]:
    """Return the sections of a notes file by heading, time marks removed from the headings."""
    if not path.is_file():
        raise SampleError(f"{path.name}: no such notes")
    _, body = split_front_matter(path.read_text(encoding="utf-8"), path.name)
    sections: dict[str, str] = {}
    for block in re.split(r"^## ", body, flags=re.MULTILINE)[1:]:
        heading, _, text = block.partition("\n")
        heading = TIME_MARK.sub("", heading).strip()
        if heading in sections:
            raise SampleError(f"{path.name}: two sections are called {heading!r}")
        sections[heading] = text.strip()
    return sections


def span_text(span: dict[str, str], archive: Path, where: str) -> str:
    """Return the source text of a span, heading included for notes."""
    if span["layer"] == "transcript":
        lines = quoted_lines(span, load_times(span["episode"]), where)
        return " ".join(line.text for line in lines)
    sections = notes_sections(archive / "notes" / f"{span['episode']}.md")
    if span["heading"] not in sections:
        raise SampleError(f"{where}: {span['episode']} has no notes section {span['heading']!r}")
    return f"{span['heading']}\n{sections[span['heading']]}"


def resolve_span(span: dict[str, str], archive: Path, where: str) -> dict[str, str]:
    """Turn one quoted span into the form of the gold set."""
    resolved = {"episode": span["episode"], "layer": span["layer"]}
    if span["layer"] == "notes":
        span_text(span, archive, where)
        return resolved | {"heading": span["heading"]}
    lines = quoted_lines(span, load_times(span["episode"]), where)
    start, end = lines[0].start_ms // 1000, -(-lines[-1].end_ms // 1000)
    return resolved | {"start": clock(start), "end": clock(end)}


def load_source(folder: Path = QUERIES) -> list[dict[str, Any]]:
    """Read the gold queries as people wrote them, in the order of their ids, and check their fields."""
    rows: list[dict[str, Any]] = [
        row for path in folder.glob("*.json") for row in json.loads(path.read_text(encoding="utf-8"))
    ]
    queries = sorted(rows, key=lambda query: str(query.get("id")))
    seen: set[str] = set()
    for query in queries:
        name = str(query.get("id"))
        if tuple(query) != FIELDS or query["kind"] not in KINDS or name in seen:
            raise SampleError(f"gold query {name}: needs a fresh id, a known kind, and {FIELDS}")
        if (query["kind"] == "unanswerable") != (not query["relevant"]):
            raise SampleError(f"gold query {name}: only unanswerable queries have no spans")
        seen.add(name)
    return queries


def resolve(queries: list[dict[str, Any]], archive: Path) -> list[dict[str, Any]]:
    """Resolve all spans of all queries."""
    return [
        query | {"relevant": [resolve_span(span, archive, query["id"]) for span in query["relevant"]]} for query in queries
    ]


def gold_text(queries: list[dict[str, Any]]) -> str:
    """Format a gold set, one query a line, so that a diff shows which query changed."""
    rows = ",\n".join(json.dumps(query, ensure_ascii=False) for query in queries)
    return f"[\n{rows}\n]\n"


def check_note_times(path: Path, times: list[TimedLine]) -> None:
    """Make sure that each time in the notes is the second in which some sentence starts."""
    starts = {clock(line.start_ms // 1000) for line in times}
    wrong = [mark for mark in TIME_MARK.findall(path.read_text(encoding="utf-8")) if mark not in starts]
    if wrong:
        raise SampleError(f"{path.name}: no sentence starts at {', '.join(wrong)}")


def build_gold(archive: Path) -> Path:
    """Write the archive's gold set and return its path."""
    for notes in sorted((archive / "notes").glob("*.md")):
        check_note_times(notes, load_times(notes.stem))
    target = archive / "gold" / "gold_set.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(gold_text(resolve(load_source(), archive)), encoding="utf-8")
    return target
