"""Small archives to search, published: everything in one of them tells its number, so that a mixture shows."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from librarian_pipeline.retrieval.search_settings import search_settings
from librarian_pipeline.settings import ChunkSettings, EmbeddingSettings, NormalizerSettings, Settings
from librarian_pipeline.storage.schemas import EPISODES
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.retrieval.samples import section, segment, write_episode, write_indexes

SETTINGS = Settings(
    embeddings=EmbeddingSettings(model="char-ngram"),
    normalizer=NormalizerSettings(name="simplemma"),
    chunks=ChunkSettings(target_s=10, max_s=20, overlap_segments=0),
)
LINES = (
    "Salt was carried over the mountains on mules, {number}.",
    "An owl hears the mouse below the snow, {number}.",
    "The bell was cast in a pit behind the church, {number}.",
    "Zvonař ulil zvon v jámě za kostelem, {number}.",
)
STEP_MS = 6_000
"""Two of them make a passage, so that citations differ from where passages begin."""
KEEP = 3

Episode = tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]]
"""Segments and sections, as `samples.segment` and `samples.section` make them."""


def numbered(number: int) -> dict[str, Episode]:
    """Each segment begins that many milliseconds later, and each title and text has it."""
    segments = [
        segment(i, STEP_MS * i + number, STEP_MS * (i + 1), text.format(number=number), "cs" if i == 3 else "en")
        for i, text in enumerate(LINES)
    ]
    return {"ep01": (segments, [section(0, "Mules", f"About salt, {number}.")]), "ep02": (segments, [])}


def publish_number(home: Path, number: int) -> str:
    return publish(home, numbered(number), str(number))


def publish(home: Path, episodes: dict[str, Episode], title: str = "A title", settings: Settings = SETTINGS) -> str:
    """Publishes these episodes, from a warehouse of their own, which is removed again; returns the snapshot's name."""
    warehouse = store(home / f"warehouse-{title}", episodes, title, settings)
    snapshots = Workspace(home, settings).snapshots
    assets = ("bm25_raw_index", "bm25_stem_index", "vector_index", "episodes")
    whole = [(asset, None) for asset in assets]
    each = [(asset, id) for id in episodes for asset in ("chunks", "transcripts")]
    records = [record for asset, part in [*whole, *each] if (record := warehouse.committed(asset, part))]
    with snapshots.locked():
        snapshot = snapshots.build(warehouse, records, search_settings(settings))
        snapshots.serve(snapshot)
    shutil.rmtree(warehouse.root)
    return snapshot.id


def store(folder: Path, episodes: dict[str, Episode], title: str, settings: Settings) -> Warehouse:
    warehouse = Warehouse(folder)
    for id, (segments, sections) in episodes.items():
        write_episode(warehouse, id, settings, segments, sections)
    write_indexes(warehouse, list(episodes), settings)
    rows = [
        {
            **dict.fromkeys(EPISODES.names),
            "episode_id": id,
            "title": title,
            "language": "en",
            "duration_ms": STEP_MS * 10,
            "status": "ok",
            "n_chunks_notes": len(sections),
            "n_chunks_transcript": len(segments),
            "findings": [],
        }
        for id, (segments, sections) in episodes.items()
    ]
    warehouse.write("episodes", None, pa.Table.from_pylist(rows, schema=EPISODES), recipe={}, inputs={})
    return warehouse


def workspace_at(home: Path) -> Workspace:
    return Workspace(home, SETTINGS)


def flip_a_bit(path: Path, at: float = 0.5) -> None:
    """In the middle of a file, which keeps its size."""
    content = bytearray(path.read_bytes())
    content[int(len(content) * at)] ^= 1
    path.chmod(0o644)
    path.write_bytes(bytes(content))
