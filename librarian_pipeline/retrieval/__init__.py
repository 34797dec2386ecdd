"""BM25, vectors, their fusion, and the one place that defines every retrieval mode."""
