"""From passages to the indexes at rest, and from the warehouse back to a searcher."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from librarian_pipeline.chunking.passages import indexed_text
from librarian_pipeline.errors import ModelNotFoundError, UsageError
from librarian_pipeline.retrieval.bm25 import Bm25Index, Bm25Tables, build_bm25
from librarian_pipeline.retrieval.dense import VectorIndex
from librarian_pipeline.retrieval.embedders import Embedder, embedder_card, load_embedder
from librarian_pipeline.retrieval.embedders.interface import OnProgress
from librarian_pipeline.retrieval.modes import Searcher, passage_texts
from librarian_pipeline.settings import Bm25Settings, EmbeddingSettings, Settings
from librarian_pipeline.storage.schemas import CHUNKS, embeddings_schema
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline.text.lemmas import Normalizer
from librarian_pipeline.text.tokens import raw_tokens

NO_INDEX = "there is no index yet"


def build_raw_index(chunks: pa.Table, settings: Bm25Settings) -> Bm25Tables:
    return _build_index(chunks, lambda text, language: raw_tokens(text), settings)


def build_stem_index(chunks: pa.Table, normalizer: Normalizer, settings: Bm25Settings) -> Bm25Tables:
    return _build_index(chunks, normalizer.terms, settings)


def _build_index(chunks: pa.Table, terms_of: Callable[[str, str], list[str]], settings: Bm25Settings) -> Bm25Tables:
    rows = passage_texts(chunks)
    return build_bm25(
        [row["chunk_id"] for row in rows],
        [row["language"] for row in rows],
        [terms_of(indexed_text(row["heading"], row["text"]), row["language"]) for row in rows],
        settings,
    )


def embed_passages(chunks: pa.Table, embedder: Embedder, model: str, on_progress: OnProgress | None = None) -> pa.Table:
    """The vectors of an episode's passages; columns as in `schemas.embeddings_schema`."""
    rows = passage_texts(chunks)
    vectors = embedder.embed_passages([indexed_text(row["heading"], row["text"]) for row in rows], on_progress)
    values = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), type=pa.float32()), embedder.dimensions)
    return pa.table(
        {"chunk_id": [row["chunk_id"] for row in rows], "embedding": values, "model": [model] * len(rows)},
        schema=embeddings_schema(embedder.dimensions),
    )


def build_vector_index(warehouse: Warehouse, episodes: Sequence[str]) -> pa.Table:
    """All vectors there are of these episodes, in the order of their ids.

    Raises `UsageError` if they come from more than one model.
    """
    embedded = [episode for episode in episodes if warehouse.path("embeddings", episode).exists()]
    tables = [warehouse.read("embeddings", episode).replace_schema_metadata() for episode in embedded]
    sizes = {table.schema.field("embedding").type.list_size for table in tables}
    models = {model for table in tables for model in table.column("model").unique().to_pylist()}
    if len(sizes) > 1 or len(models) > 1:
        raise UsageError(f"the embeddings come from several models ({', '.join(sorted(models))})", "run `librarian run`")
    return pa.concat_tables(tables).sort_by("chunk_id") if tables else embeddings_schema(1).empty_table()


def load_bm25(warehouse: Warehouse, index: str) -> Bm25Index:
    """`index` is `bm25_raw` or `bm25_stem`."""
    return Bm25Index(
        Bm25Tables(
            postings=warehouse.read(f"{index}_index"),
            documents=warehouse.read(f"{index}_documents"),
            corpus=warehouse.read(f"{index}_corpus"),
        )
    )


def load_searcher(warehouse: Warehouse, settings: Settings) -> Searcher:
    """A searcher over the stored indexes, with the normaliser and the embedding model that they were built with.

    Raises `UsageError` if there is no index yet, or if it holds passages that are no longer there.
    """
    stem = warehouse.committed("bm25_stem_index")
    if stem is None or warehouse.committed("bm25_raw_index") is None or warehouse.committed("vector_index") is None:
        raise UsageError(NO_INDEX, f"run `librarian run --home {warehouse.root.parent}`")
    chunks = warehouse.read_all("chunks", indexed_episodes(warehouse), CHUNKS)
    raw_index, stem_index = load_bm25(warehouse, "bm25_raw"), load_bm25(warehouse, "bm25_stem")
    vector_index = VectorIndex(warehouse.read("vector_index"))
    indexed = {*raw_index.chunk_ids, *stem_index.chunk_ids, *vector_index.chunk_ids}
    if not indexed <= set(chunks.column("chunk_id").to_pylist()):
        raise UsageError(
            "passages have changed since they were indexed", f"run `librarian run --home {warehouse.root.parent}`"
        )
    return Searcher(
        chunks=chunks,
        raw_index=raw_index,
        stem_index=stem_index,
        vector_index=vector_index,
        normalizer=Normalizer(stem.recipe["normalizer"]),
        load_embedder=lambda: load_embedder(index_model(warehouse, settings)),
        fusion=settings.fusion,
    )


def indexed_episodes(warehouse: Warehouse) -> list[str]:
    """The episodes whose passages the indexes hold, by the provenance of the raw index."""
    record = warehouse.committed("bm25_raw_index")
    if record is None:
        raise UsageError(NO_INDEX, f"run `librarian run --home {warehouse.root.parent}`")
    return [name.removeprefix("chunks[").removesuffix("]") for name in record.inputs]


def index_model(warehouse: Warehouse, settings: Settings) -> EmbeddingSettings:
    """The model that the stored vectors come from, checked to be the same weights; without vectors, that of the settings."""
    for episode in indexed_episodes(warehouse):
        record = warehouse.committed("embeddings", episode)
        if record is not None:
            model = EmbeddingSettings(
                model=record.recipe["model"],
                query_prompt=settings.embeddings.query_prompt,
                passage_prompt=record.recipe.get("passage_prompt"),
            )
            if embedder_card(model).digest != record.recipe["digest"]:
                raise ModelNotFoundError(
                    f"the weights of {model.model} are not those that the index was built with", "run `librarian run`"
                )
            return model
    return settings.embeddings
