"""The embedding models of the dense branch, one file each, behind one interface."""

from librarian_pipeline.retrieval.embedders.interface import Embedder
from librarian_pipeline.retrieval.embedders.registry import (
    EmbedderCard,
    embedder_card,
    embedder_recipe,
    load_embedder,
    query_recipe,
)

__all__ = ["Embedder", "EmbedderCard", "embedder_card", "embedder_recipe", "load_embedder", "query_recipe"]
