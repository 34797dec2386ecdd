"""Tables as people read them in Dagster's UI. What comes from an archive is text there, never markup."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from librarian_pipeline.retrieval.citations import cite
from librarian_pipeline.retrieval.modes import passages_of

CELL_CHARACTERS = 160
_MARKUP = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]()#+!|<>~"})


def rows_as_markdown(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> dg.MarkdownMetadataValue:
    lines = [list(columns), ["---"] * len(columns), *([_cell(row.get(column)) for column in columns] for row in rows)]
    return dg.MetadataValue.md("\n".join(f"| {' | '.join(line)} |" for line in lines))


def passages_as_markdown(chunks: pa.Table) -> dg.MarkdownMetadataValue:
    """Passages with their citations."""
    passages = passages_of(chunks).values()
    return rows_as_markdown(
        [{"citation": cite(passage, passage.start_ms).text, "text": passage.text} for passage in passages],
        ["citation", "text"],
    )


def _cell(value: Any) -> str:
    text = "" if value is None else " ".join(str(value).split())
    shortened = text if len(text) <= CELL_CHARACTERS else text[: CELL_CHARACTERS - 1] + "…"
    return shortened.translate(_MARKUP)
