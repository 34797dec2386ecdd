"""What people read of an output in Dagster's UI. What comes from an archive is text there, never markup."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from librarian_pipeline.checks import Severity
from librarian_pipeline.derivation.step import Markdown, Sample
from librarian_pipeline.lineage.columns import COLUMN_SOURCES
from librarian_pipeline.storage.provenance import Provenance

CELL_CHARACTERS = 160
_MARKUP = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]()#+!|<>~"})


def shown(fact: Any) -> Any:
    """A fact of a step as Dagster's metadata."""
    if isinstance(fact, Sample):
        return rows_as_markdown(fact.rows, fact.columns)
    return dg.MetadataValue.md(fact.text) if isinstance(fact, Markdown) else fact


def record_metadata(record: Provenance) -> dict[str, Any]:
    """What an output is and what went into it: its data version, its recipe, and the data version of each input then."""
    return {
        "dagster/row_count": record.rows,
        "data_version": record.version,  # Dagster shows its own only among the tags
        "recipe": dg.MetadataValue.json(dict(record.recipe)),
        "recipe_fingerprint": record.recipe_fingerprint,
        "inputs": dg.MetadataValue.json(dict(record.inputs)),
    }


SEVERITIES = {Severity.WARN: dg.AssetCheckSeverity.WARN, Severity.ERROR: dg.AssetCheckSeverity.ERROR}


def table_schema(schema: pa.Schema) -> dg.TableSchema:
    return dg.TableSchema([dg.TableColumn(field.name, str(field.type)) for field in schema])


def column_lineage(asset: str) -> dg.TableColumnLineage:
    """Which columns of other assets each column is made from."""
    return dg.TableColumnLineage(
        {
            column: [dg.TableColumnDep(dg.AssetKey(upstream), source) for upstream, source in sources]
            for column, sources in COLUMN_SOURCES[asset].items()
        }
    )


def rows_as_markdown(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> dg.MarkdownMetadataValue:
    lines = [list(columns), ["---"] * len(columns), *([_cell(row.get(column)) for column in columns] for row in rows)]
    return dg.MetadataValue.md("\n".join(f"| {' | '.join(line)} |" for line in lines))


def _cell(value: Any) -> str:
    text = "" if value is None else " ".join(str(value).split())
    shortened = text if len(text) <= CELL_CHARACTERS else text[: CELL_CHARACTERS - 1] + "…"
    return shortened.translate(_MARKUP)
