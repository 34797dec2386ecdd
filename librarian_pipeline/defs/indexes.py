"""What is searched: `embeddings`, `vector_index`, `bm25_raw_index`, `bm25_stem_index`."""

from functools import lru_cache

from librarian_pipeline.checks import EMBEDDING_CHECKS, embedding_outcomes
from librarian_pipeline.defs.declaration import Result, derived
from librarian_pipeline.defs.step import Step
from librarian_pipeline.retrieval.bm25 import Bm25Tables
from librarian_pipeline.retrieval.embedders import Embedder, embedder_card, load_embedder
from librarian_pipeline.retrieval.indexing import build_raw_index, build_stem_index, build_vector_index, embed_passages
from librarian_pipeline.settings import EmbeddingSettings
from librarian_pipeline.storage.schemas import CHUNKS, POSTINGS, TOKEN_COUNTS, embeddings_schema
from librarian_pipeline.text.lemmas import Normalizer

# The definition can't know the model's dimensions; each materialization states them.
VECTORS = embeddings_schema(-1)


@derived(VECTORS, checks=EMBEDDING_CHECKS)
def embeddings(step: Step) -> Result:
    """A unit vector for each passage, by the embedding model of the settings."""
    card = embedder_card(step.settings.embeddings)
    embedder = _embedder(step.settings.embeddings)
    table = embed_passages(
        step.read("chunks", CHUNKS), embedder, card.model, lambda done, total: step.report(done, total, "texts")
    )
    facts = {"model": card.label, "digest": card.digest, "dimensions": embedder.dimensions}
    outcomes = embedding_outcomes(table.select(TOKEN_COUNTS.names).to_pylist(), step.settings.checks)
    return step.store(table, metadata=facts, outcomes=outcomes)


@derived(VECTORS)
def vector_index(step: Step) -> Result:
    """All vectors of the archive in one table, searched exactly."""
    tables = build_vector_index(step.warehouse, step.episodes)
    models = {f"query {key}": value for row in tables.model.to_pylist() for key, value in row.items() if value is not None}
    return step.store(tables.vectors, beside={"vector_index_model": tables.model}, metadata=models)


@derived(POSTINGS)
def bm25_raw_index(step: Step) -> Result:
    """Postings of the case-folded words of all passages."""
    return _store_bm25(step, "bm25_raw", build_raw_index(step.read("chunks", CHUNKS), step.settings.bm25))


@derived(POSTINGS)
def bm25_stem_index(step: Step) -> Result:
    """Postings of the lemmas of all passages, each lemmatised in its own language."""
    normalizer = Normalizer(step.settings.normalizer.name)
    return _store_bm25(step, "bm25_stem", build_stem_index(step.read("chunks", CHUNKS), normalizer, step.settings.bm25))


def _store_bm25(step: Step, name: str, tables: Bm25Tables) -> Result:
    corpus = tables.corpus.to_pylist()[0]
    return step.store(
        tables.postings,
        beside={f"{name}_documents": tables.documents, f"{name}_corpus": tables.corpus},
        metadata={key: corpus[key] for key in ("n_documents", "n_distinct_terms", "average_document_terms")},
    )


@lru_cache(maxsize=1)
def _embedder(settings: EmbeddingSettings) -> Embedder:
    """The model stays loaded from one episode of a run to the next."""
    return load_embedder(settings)
