"""From passages to the indexes at rest, and from the warehouse back to a searcher."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from librarian_pipeline.chunking.passages import indexed_text
from librarian_pipeline.errors import ModelNotFoundError, UsageError
from librarian_pipeline.retrieval.bm25 import Bm25Index, Bm25Tables, build_bm25
from librarian_pipeline.retrieval.dense import VectorIndex, dimensions_of
from librarian_pipeline.retrieval.embedders import Embedder, embedder_card, load_embedder
from librarian_pipeline.retrieval.embedders.interface import OnProgress
from librarian_pipeline.retrieval.modes import Searcher, passage_texts
from librarian_pipeline.settings import Bm25Settings, EmbeddingSettings, Settings
from librarian_pipeline.storage.schemas import CHUNKS, VECTOR_INDEX_MODEL, embeddings_schema
from librarian_pipeline.storage.tables import TableReader
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline.text.lemmas import Normalizer
from librarian_pipeline.text.tokens import raw_tokens


def build_raw_index(chunks: pa.Table, settings: Bm25Settings) -> Bm25Tables:
    return _build_index(chunks, lambda text, language: raw_tokens(text), settings, "none")


def build_stem_index(chunks: pa.Table, normalizer: Normalizer, settings: Bm25Settings) -> Bm25Tables:
    return _build_index(chunks, normalizer.terms, settings, normalizer.name)


def _build_index(
    chunks: pa.Table, terms_of: Callable[[str, str], list[str]], settings: Bm25Settings, normalizer: str
) -> Bm25Tables:
    rows = passage_texts(chunks)
    return build_bm25(
        [row["chunk_id"] for row in rows],
        [row["language"] for row in rows],
        [terms_of(indexed_text(row["heading"], row["text"]), row["language"]) for row in rows],
        settings,
        normalizer,
    )


def embed_passages(chunks: pa.Table, embedder: Embedder, model: str, on_progress: OnProgress | None = None) -> pa.Table:
    """The vectors of an episode's passages; columns as in `schemas.embeddings_schema`."""
    rows = passage_texts(chunks)
    texts = [indexed_text(row["heading"], row["text"]) for row in rows]
    vectors = embedder.embed_passages(texts, on_progress)
    values = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), type=pa.float32()), embedder.dimensions)
    return pa.table(
        {
            "chunk_id": [row["chunk_id"] for row in rows],
            "embedding": values,
            "model": [model] * len(rows),
            "n_tokens": [embedder.count_tokens(text) for text in texts],
            "max_tokens": [embedder.max_tokens] * len(rows),
        },
        schema=embeddings_schema(embedder.dimensions),
    )


@dataclass(frozen=True)
class VectorTables:
    """A vector index at rest: the vectors, and in one row the model that a query has to be embedded with."""

    vectors: pa.Table
    model: pa.Table


def build_vector_index(warehouse: Warehouse, episodes: Sequence[str]) -> VectorTables:
    """All vectors there are of these episodes, in the order of their ids.

    Raises `UsageError` if they come from more than one model.
    """
    records = {episode: record for episode in episodes if (record := warehouse.committed("embeddings", episode))}
    tables = [warehouse.read("embeddings", episode).replace_schema_metadata() for episode in records]
    models = {
        (record.recipe["model"], record.recipe["digest"], record.recipe.get("passage_prompt"), dimensions_of(table))
        for record, table in zip(records.values(), tables, strict=True)
    }
    if len(models) > 1:
        names = ", ".join(sorted({name for name, *_ in models}))
        raise UsageError(f"the embeddings come from several models, or versions of one ({names})", "run `librarian run`")
    return VectorTables(
        vectors=pa.concat_tables(tables).sort_by("chunk_id") if tables else embeddings_schema(1).empty_table(),
        model=pa.Table.from_pylist(
            [dict(zip(VECTOR_INDEX_MODEL.names, model, strict=True)) for model in models], schema=VECTOR_INDEX_MODEL
        ),
    )


def load_bm25(tables: TableReader, index: str) -> Bm25Index:
    """`index` is `bm25_raw` or `bm25_stem`."""
    return Bm25Index(
        Bm25Tables(
            postings=tables.read(f"{index}_index"),
            documents=tables.read(f"{index}_documents"),
            corpus=tables.read(f"{index}_corpus"),
        )
    )


def load_searcher(
    tables: TableReader, settings: Settings, load: Callable[[EmbeddingSettings], Embedder] = load_embedder
) -> Searcher:
    """A searcher over the stored indexes, with the normaliser and the embedding model that they were built with.

    `load` loads that model, once the first query needs it; nothing else is read later, so the tables may be gone by then.

    Raises `UsageError` if there is no index yet, or if passages have changed since they were indexed.
    """
    raw, stem = tables.committed("bm25_raw_index"), tables.committed("bm25_stem_index")
    if raw is None or stem is None or tables.committed("vector_index") is None:
        raise no_index(tables)
    chunks = tables.read_all("chunks", indexed_episodes(tables), CHUNKS)
    raw_index, stem_index = load_bm25(tables, "bm25_raw"), load_bm25(tables, "bm25_stem")
    vector_index = VectorIndex(tables.read("vector_index"))
    same_passages = raw.inputs == stem.inputs == chunk_versions(tables, indexed_episodes(tables))
    if not same_passages or not set(vector_index.chunk_ids) <= set(raw_index.chunk_ids):
        fix = f"run `librarian run --home {shlex.quote(str(tables.root.parent))}`, or wait for the run that is at work"
        raise UsageError("passages have changed since they were indexed", fix)
    built_with = tables.read("vector_index_model").to_pylist()
    return Searcher(
        chunks=chunks,
        raw_index=raw_index,
        stem_index=stem_index,
        vector_index=vector_index,
        normalizer=Normalizer(tables.read("bm25_stem_corpus").column("normalizer")[0].as_py()),
        load_embedder=lambda: load(_model_of(built_with, settings)),
        fusion=settings.fusion,
        default_mode=settings.retrieval.default_mode,
    )


def chunk_versions(tables: TableReader, episodes: Sequence[str]) -> dict[str, str]:
    """The stored passages of these episodes, as inputs of what is derived from them."""
    records = {episode: tables.committed("chunks", episode) for episode in episodes}
    return {f"chunks[{episode}]": record.version for episode, record in records.items() if record is not None}


def no_index(tables: TableReader) -> UsageError:
    return UsageError("there is no index yet", f"run `librarian run --home {shlex.quote(str(tables.root.parent))}`")


def indexed_episodes(tables: TableReader) -> list[str]:
    """The episodes whose passages the indexes hold, by the provenance of the raw index."""
    record = tables.committed("bm25_raw_index")
    if record is None:
        raise no_index(tables)
    return [name.removeprefix("chunks[").removesuffix("]") for name in record.inputs]


def index_model(tables: TableReader, settings: Settings) -> EmbeddingSettings:
    """The model of the stored vectors, checked to be the same weights; that of the settings where there are no vectors.

    Raises `ModelNotFoundError` if the weights are gone, or others than they were.
    """
    if tables.committed("vector_index") is None:
        raise no_index(tables)
    return _model_of(tables.read("vector_index_model").to_pylist(), settings)


def _model_of(rows: list[dict[str, Any]], settings: Settings) -> EmbeddingSettings:
    if not rows:
        return settings.embeddings
    [built_with] = rows
    model = EmbeddingSettings(
        model=built_with["model"],
        query_prompt=settings.embeddings.query_prompt,
        passage_prompt=built_with["passage_prompt"],
    )
    if embedder_card(model).digest != built_with["digest"]:
        message = f"the weights of {model.model} are not those that the index was built with"
        raise ModelNotFoundError(message, "run `librarian run`")
    return model
