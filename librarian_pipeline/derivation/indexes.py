"""What is searched: `embeddings`, `vector_index`, `bm25_raw_index`, `bm25_stem_index`."""

from librarian_pipeline.derivation.step import Output, Step
from librarian_pipeline.retrieval.bm25 import Bm25Tables
from librarian_pipeline.retrieval.embedders import embedder_card
from librarian_pipeline.retrieval.indexing import build_raw_index, build_stem_index, build_vector_index, embed_passages
from librarian_pipeline.retrieval.reuse import embedder_of
from librarian_pipeline.storage.schemas import CHUNKS
from librarian_pipeline.text.lemmas import Normalizer


def embeddings(step: Step) -> Output:
    """A vector for each passage, by the embedding model of the settings."""
    card = embedder_card(step.settings.embeddings)
    embedder = embedder_of(step.settings.embeddings, step.warehouse.cache_dir, reuse=step.reuse)
    table = embed_passages(
        step.read("chunks", CHUNKS), embedder, card.model, lambda done, total: step.report(done, total, "texts")
    )
    facts = {
        "model": card.label,
        "digest": card.digest,
        "dimensions": embedder.dimensions,
        "texts embedded": embedder.n_embedded,
        "texts reused": embedder.n_reused,
    }
    return Output(table, facts=facts)


def vector_index(step: Step) -> Output:
    """All vectors of the archive in one table, searched exactly."""
    tables = build_vector_index(step.warehouse, step.episodes)
    models = {f"query {key}": value for row in tables.model.to_pylist() for key, value in row.items() if value is not None}
    return Output(tables.vectors, beside={"vector_index_model": tables.model}, facts=models)


def bm25_raw_index(step: Step) -> Output:
    """Postings of the case-folded words of all passages."""
    return _bm25("bm25_raw", build_raw_index(step.read("chunks", CHUNKS), step.settings.bm25))


def bm25_stem_index(step: Step) -> Output:
    """Postings of the lemmas of all passages, each lemmatised in its own language."""
    normalizer = Normalizer(step.settings.normalizer.name)
    return _bm25("bm25_stem", build_stem_index(step.read("chunks", CHUNKS), normalizer, step.settings.bm25))


def _bm25(name: str, tables: Bm25Tables) -> Output:
    corpus = tables.corpus.to_pylist()[0]
    return Output(
        tables.postings,
        beside={f"{name}_documents": tables.documents, f"{name}_corpus": tables.corpus},
        facts={key: corpus[key] for key in ("n_documents", "n_distinct_terms", "average_document_terms")},
    )
