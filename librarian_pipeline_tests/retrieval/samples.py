"""Passages, an embedder stand-in, and a warehouse with indexes: what the tests of retrieval share."""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from librarian_pipeline.chunking.passages import cut_episode
from librarian_pipeline.lineage.recipes import recipe
from librarian_pipeline.retrieval.bm25 import Bm25Index, Bm25Tables
from librarian_pipeline.retrieval.dense import VectorIndex
from librarian_pipeline.retrieval.embedders import Embedder, load_embedder
from librarian_pipeline.retrieval.embedders.interface import OnProgress, Vectors, unit_rows
from librarian_pipeline.retrieval.indexing import build_raw_index, build_stem_index, build_vector_index, embed_passages
from librarian_pipeline.retrieval.modes import Searcher
from librarian_pipeline.settings import Bm25Settings, FusionSettings, Settings
from librarian_pipeline.storage.schemas import CHUNKS, NOTES, TRANSCRIPTS
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline.text.lemmas import Normalizer
from librarian_pipeline.text.tokens import raw_tokens


class HashedWordsStandIn:
    """Stands in for an embedding model: deterministic vectors, near each other where texts share words."""

    dimensions = 64
    max_tokens: int | None = None

    def __init__(self) -> None:
        self.queries: list[str] = []

    def count_tokens(self, passage: str) -> int | None:
        return len(raw_tokens(passage))

    def embed_passages(self, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            for token in raw_tokens(text):
                vectors[row, zlib.crc32(token.encode()) % self.dimensions] += 1
        return unit_rows(vectors)

    def embed_query(self, text: str) -> Vectors:
        self.queries.append(text)
        vector: Vectors = self.embed_passages([text])[0]
        return vector


def passage(chunk_id: str, text: str, language: str = "en", heading: str | None = None) -> dict[str, Any]:
    """A row of `chunks` out of the notes, without a time."""
    row = dict.fromkeys(CHUNKS.names)
    return {
        **row,
        "chunk_id": chunk_id,
        "episode_id": chunk_id.partition(":")[0],
        "layer": "notes",
        "heading": heading,
        "text": text,
        "language": language,
    }


def chunks_of(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=CHUNKS)


def searcher_over(
    chunks: pa.Table,
    embedder: Embedder | None = None,
    fusion: FusionSettings | None = None,
    load: Callable[[], Embedder] | None = None,
    default_mode: str = "hybrid",
    vectors: pa.Table | None = None,
) -> Searcher:
    """A searcher in memory, as `load_searcher` puts it together."""
    embedder = embedder or HashedWordsStandIn()
    terms = Normalizer("simplemma")
    return Searcher(
        chunks=chunks,
        raw_index=Bm25Index(build_raw_index(chunks, Bm25Settings())),
        stem_index=Bm25Index(build_stem_index(chunks, terms, Bm25Settings())),
        vector_index=VectorIndex(vectors if vectors is not None else embed_passages(chunks, embedder, "stand-in")),
        normalizer=terms,
        load_embedder=load or (lambda: embedder),
        fusion=fusion or FusionSettings(),
        default_mode=default_mode,
    )


def segment(idx: int, start_ms: int, end_ms: int, text: str, language: str = "en", excluded: bool = False) -> dict[str, Any]:
    """A row of `transcripts`."""
    times = {"segment_idx": idx, "start_ms": start_ms, "end_ms": end_ms}
    return {**dict.fromkeys(TRANSCRIPTS.names), **times, "text": text, "language": language, "excluded": excluded}


def section(idx: int, heading: str | None, text: str, start_ms: int | None = None, language: str = "en") -> dict[str, Any]:
    """A row of `notes`."""
    return {"section_idx": idx, "heading": heading, "start_ms": start_ms, "text": text, "language": language}


def write_episode(
    warehouse: Warehouse,
    episode: str,
    settings: Settings,
    segments: Sequence[dict[str, Any]] = (),
    sections: Sequence[dict[str, Any]] = (),
) -> None:
    """The transcript, the passages and the vectors of an episode."""
    transcript = pa.Table.from_pylist([{**row, "episode_id": episode} for row in segments], schema=TRANSCRIPTS)
    notes = pa.Table.from_pylist([{**row, "episode_id": episode} for row in sections], schema=NOTES)
    chunks = cut_episode(episode, transcript, notes, settings.chunks)
    vectors = embed_passages(chunks, load_embedder(settings.embeddings), settings.embeddings.model)
    warehouse.write("transcripts", episode, transcript, recipe={}, inputs={})
    warehouse.write("chunks", episode, chunks, recipe=recipe("chunks", settings), inputs={})
    warehouse.write("embeddings", episode, vectors, recipe=recipe("embeddings", settings), inputs={})


def write_indexes(warehouse: Warehouse, episodes: Sequence[str], settings: Settings) -> None:
    """The three indexes over the passages of the episodes, with their provenance."""
    chunks = warehouse.read_all("chunks", episodes, CHUNKS)
    records = {episode: warehouse.committed("chunks", episode) for episode in episodes}
    inputs = {f"chunks[{episode}]": record.version for episode, record in records.items() if record}
    stem = build_stem_index(chunks, Normalizer(settings.normalizer.name), settings.bm25)
    for name, tables in {"bm25_raw": build_raw_index(chunks, settings.bm25), "bm25_stem": stem}.items():
        write_bm25(warehouse, name, tables, recipe(f"{name}_index", settings), inputs)
    built = build_vector_index(warehouse, episodes)
    beside = {"vector_index_model": built.model}
    warehouse.write("vector_index", None, built.vectors, recipe={}, inputs={}, beside=beside)


def write_bm25(warehouse: Warehouse, name: str, tables: Bm25Tables, recipe: Any, inputs: dict[str, str]) -> None:
    beside = {f"{name}_documents": tables.documents, f"{name}_corpus": tables.corpus}
    warehouse.write(f"{name}_index", None, tables.postings, recipe=recipe, inputs=inputs, beside=beside)


def warehouse_at(folder: Path) -> Warehouse:
    return Warehouse(folder / "warehouse")
