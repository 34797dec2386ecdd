"""What `librarian search` shows: the passages of the published index, what matched in them, and where to listen to them."""

import os
import sys
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from librarian_pipeline.console import out, print_json, print_lines, printable
from librarian_pipeline.publication import difference
from librarian_pipeline.reading.audio import audio_of, file_link
from librarian_pipeline.reading.marks import MarkedText, excerpt, marked
from librarian_pipeline.serving.edition import CitedHit, Edition
from librarian_pipeline.serving.library import Library
from librarian_pipeline.workspace import Workspace

EXCERPT_CHARACTERS = 300
HIGHLIGHT = "bold yellow"


@dataclass(frozen=True)
class _Found:
    cited: CitedHit
    text: MarkedText
    audio: str | None
    """The link to the moment; None where the archive has no audio of it."""

    @property
    def excerpt(self) -> MarkedText:
        return excerpt(self.text, EXCERPT_CHARACTERS)


def print_found(workspace: Workspace, query: str, mode: str | None, k: int, *, as_json: bool) -> None:
    """Raises like `Searcher.search`, and like `Library.carry_out`."""

    def request(edition: Edition) -> tuple[Edition, list[_Found]]:
        hits = edition.search(query, mode, k)
        return edition, [
            _Found(hit, marked(hit.passage, query, edition.searcher), _audio_link(workspace, hit)) for hit in hits
        ]

    edition, found = Library(workspace).carry_out(request)
    if edition.warning is not None:
        print_lines([f"warning: {edition.warning}"], to_stderr=True)
    elif note := difference(workspace, edition.snapshot):
        print_lines([f"note: {note}"], to_stderr=True)
    if as_json:
        print_json([_as_json(one, edition) for one in found])
        return
    for one in found:
        print_lines([f"{one.cited.hit.rank}. {one.cited.citation.text}"])
        _print_marked("   ", one.excerpt)
        print_lines([f"   {one.audio}"] if one.audio else [])
    if not found:
        print_lines([f"no passage holds any word of {query!r}"])
    print_lines([f"published index: {edition.id}"])


def _audio_link(workspace: Workspace, hit: CitedHit) -> str | None:
    path = audio_of(workspace.archive, hit.passage.episode_id) if hit.citation.start_ms is not None else None
    return file_link(path, hit.citation.start_ms) if path else None


def _as_json(one: _Found, edition: Edition) -> dict[str, Any]:
    """`highlights` and `excerpt_highlights` are pairs of where a marked word begins and ends, in characters."""
    hit, citation = one.cited.hit, one.cited.citation
    return {
        "rank": hit.rank,
        "score": hit.score,
        "citation": citation.text,
        "episode_id": citation.episode_id,
        "start_ms": citation.start_ms,
        "chunk_id": hit.passage.chunk_id,
        "layer": hit.passage.layer,
        "text": one.text.text,
        "highlights": one.text.spans,
        "excerpt": one.excerpt.text,
        "excerpt_highlights": one.excerpt.spans,
        "audio": one.audio,
        "snapshot": edition.id,
        "warning": edition.warning,
    }


def _print_marked(indent: str, text: MarkedText) -> None:
    """On one line, whatever the text holds. Marks show on a terminal, unless its user wants no colours."""
    style = HIGHLIGHT if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else ""
    line = Text(indent)
    for piece, is_marked in text.pieces():
        line.append(printable(piece).replace("\n", " "), style if is_marked else "")
    out().print(line)
