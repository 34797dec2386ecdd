"""Which columns each column is made from: what Dagster shows as column lineage.

A column that isn't named comes from the archive's files or from the step itself.
"""

from collections.abc import Mapping

Source = tuple[str, str]
"""An upstream asset, and its column."""

EPISODE = "episode_id"


def _from(asset: str, *columns: str) -> dict[str, list[Source]]:
    """Columns that are taken over under their own names."""
    return {column: [(asset, column)] for column in columns}


_SPOKEN_OR_WRITTEN: dict[str, list[Source]] = {
    "text": [("transcripts", "text"), ("notes", "text")],
    "language": [("transcripts", "language"), ("notes", "language")],
    "start_ms": [("transcripts", "start_ms"), ("notes", "start_ms")],
}
_POSTINGS: dict[str, list[Source]] = {
    **_from("chunks", "chunk_id"),
    "term": [("chunks", "text"), ("chunks", "heading"), ("chunks", "language")],
    "tf": [("chunks", "text"), ("chunks", "heading")],
}
_FIGURE: list[Source] = [
    ("bm25_raw_index", "tf"),
    ("bm25_stem_index", "tf"),
    ("vector_index", "embedding"),
    ("chunks", "start_ms"),
    ("chunks", "end_ms"),
    ("transcripts", "words"),
    ("transcripts", "start_ms"),
    ("gold_set", "query"),
    ("gold_set", "start_ms"),
    ("gold_set", "end_ms"),
]

COLUMN_SOURCES: Mapping[str, Mapping[str, list[Source]]] = {
    "audio": {},
    "notes": {},
    "transcripts": {
        **_from("audio", EPISODE),
        "text": [("audio", "audio_sha256")],
        "start_ms": [("audio", "audio_sha256")],
        "end_ms": [("audio", "audio_sha256"), ("audio", "duration_decoded_ms")],
    },
    "chunks": {
        EPISODE: [("transcripts", EPISODE), ("notes", EPISODE)],
        **_SPOKEN_OR_WRITTEN,
        "end_ms": [("transcripts", "end_ms")],
        "heading": [("notes", "heading")],
        "n_words": _SPOKEN_OR_WRITTEN["text"],
        "text_sha256": _SPOKEN_OR_WRITTEN["text"],
        "first_segment": [("transcripts", "segment_idx")],
        "last_segment": [("transcripts", "segment_idx")],
    },
    "embeddings": {
        **_from("chunks", "chunk_id"),
        "embedding": [("chunks", "text"), ("chunks", "heading")],
        "n_tokens": [("chunks", "text"), ("chunks", "heading")],
    },
    "episodes": {
        EPISODE: [("audio", EPISODE), ("notes", EPISODE), ("transcripts", EPISODE)],
        "language": [("transcripts", "language"), ("chunks", "language")],
        "duration_ms": [("audio", "duration_decoded_ms"), ("transcripts", "end_ms")],
        "status": [("audio", "status")],
        "status_reason": [("audio", "status_reason")],
        "n_chunks_notes": [("chunks", "layer")],
        "n_chunks_transcript": [("chunks", "layer")],
        "findings": [("audio", "status"), ("transcripts", "flags"), ("embeddings", "n_tokens")],
    },
    "bm25_raw_index": _POSTINGS,
    "bm25_stem_index": _POSTINGS,
    "vector_index": _from("embeddings", "chunk_id", "embedding", "model", "n_tokens", "max_tokens"),
    "gold_set": {},
    "eval_scores": {
        "value": _FIGURE,
        "ci_low": _FIGURE,
        "ci_high": _FIGURE,
        "n_queries": [("gold_set", "query_id")],
        "slice": [("gold_set", "language"), ("gold_set", "kind"), ("gold_set", "split")],
    },
    "published_index": {
        "snapshot_id": [
            ("transcripts", "text"),
            ("chunks", "text"),
            ("episodes", "title"),
            ("bm25_raw_index", "tf"),
            ("bm25_stem_index", "tf"),
            ("vector_index", "embedding"),
            ("gold_set", "query"),
            ("eval_scores", "value"),
        ],
        "n_episodes": [("chunks", EPISODE)],
        "n_passages": [("chunks", "chunk_id")],
        "n_segments": [("transcripts", "segment_idx")],
        "n_queries": [("gold_set", "query_id"), ("chunks", "chunk_id")],
        "embedding_model": [("vector_index", "model")],
    },
}
