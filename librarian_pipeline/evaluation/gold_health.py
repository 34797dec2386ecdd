"""The hygiene of an archive's gold set, as the indexed passages answer it.

What is found out depends on nothing but the gold set and the passages. It is kept with their versions, so that a run with
nothing to do, or another threshold, reads no passage.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from librarian_pipeline.checks.outcome import Severity
from librarian_pipeline.evaluation.hygiene import Examined, HygieneCheck, Overlap, examine
from librarian_pipeline.retrieval.indexing import indexed_episodes
from librarian_pipeline.retrieval.modes import passages_of
from librarian_pipeline.settings import GoldSettings
from librarian_pipeline.storage import atomic
from librarian_pipeline.storage.content import content_hash
from librarian_pipeline.storage.provenance import fingerprint
from librarian_pipeline.storage.schemas import CHUNKS, GOLD_SET
from librarian_pipeline.storage.warehouse import Warehouse

CODE = 2
"""Counts up when the measure is changed."""


def gold_health(warehouse: Warehouse, settings: GoldSettings, gold: pa.Table | None = None) -> list[HygieneCheck]:
    """The checks of the stored gold set, or of another one; without an index, those that need no passages."""
    if gold is None:
        gold = warehouse.read_all("gold_set", ["all"], GOLD_SET)
    if warehouse.committed("bm25_raw_index") is None:
        return examine(gold, None).judged_by(settings)
    key = _key(warehouse, gold)
    examined = _kept(warehouse, key)
    if examined is None:
        examined = examine(gold, passages_of(warehouse.read_all("chunks", indexed_episodes(warehouse), CHUNKS)))
        _keep(warehouse, json.dumps({"key": key, **asdict(examined)}, ensure_ascii=False))
    return examined.judged_by(settings)


def _key(warehouse: Warehouse, gold: pa.Table) -> str:
    records = {episode: warehouse.provenance("chunks", episode) for episode in indexed_episodes(warehouse)}
    versions = {episode: record.version for episode, record in records.items() if record}
    parts = {"code": CODE, "simplemma": version("simplemma"), "gold_set": content_hash(gold), "chunks": versions}
    return fingerprint(parts)


def _kept(warehouse: Warehouse, key: str) -> Examined | None:
    """None where nothing is kept of this gold set and these passages, or what is kept is damaged."""
    try:
        kept = json.loads(_path(warehouse).read_text(encoding="utf-8"))
        if kept["key"] != key:
            return None
        return Examined(
            tuple(HygieneCheck(**_with(row, offenders=tuple, severity=Severity)) for row in kept["checks"]),
            tuple(Overlap(**_with(row, shared=tuple)) for row in kept["overlaps"]),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _with(row: dict[str, Any], **read: Callable[[Any], Any]) -> dict[str, Any]:
    """A row of JSON with some of its values read as what they were."""
    return {**row, **{name: as_it_was(row[name]) for name, as_it_was in read.items()}}


def _keep(warehouse: Warehouse, text: str) -> None:
    """An archive that can't be written is examined all the same."""
    try:
        atomic.write_text(text, _path(warehouse))
    except OSError:
        return


def _path(warehouse: Warehouse) -> Path:
    return warehouse.cache_dir / "gold_health" / "examined.json"
