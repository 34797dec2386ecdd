"""The columns of every table, once: Parquet files, DuckDB tables and Dagster's column schemas all come from here.

Times are milliseconds on the original audio's timeline, in columns that end in `_ms`.
"""

import hashlib

import pyarrow as pa

WORD = pa.struct([("word", pa.string()), ("start_ms", pa.int64()), ("end_ms", pa.int64()), ("probability", pa.float64())])

AUDIO = pa.schema(
    [
        ("episode_id", pa.string()),
        ("source_path", pa.string()),
        ("audio_sha256", pa.string()),
        ("audio_bytes", pa.int64()),
        ("codec", pa.string()),
        ("channels", pa.int64()),
        ("sample_rate_hz", pa.int64()),
        ("duration_header_ms", pa.int64()),
        ("duration_last_packet_ms", pa.int64()),
        ("duration_decoded_ms", pa.int64()),
        ("bad_packets", pa.int64()),
        ("status", pa.string()),
        ("status_reason", pa.string()),
    ]
)

NOTES = pa.schema(
    [
        ("episode_id", pa.string()),
        ("section_idx", pa.int64()),
        ("heading", pa.string()),
        ("start_ms", pa.int64()),
        ("text", pa.string()),
        ("language", pa.string()),
    ]
)

TRANSCRIPTS = pa.schema(
    [
        ("episode_id", pa.string()),
        ("segment_idx", pa.int64()),
        ("start_ms", pa.int64()),
        ("end_ms", pa.int64()),
        ("text", pa.string()),
        ("language", pa.string()),
        ("speaker", pa.string()),
        ("source", pa.string()),
        ("avg_logprob", pa.float64()),
        ("no_speech_prob", pa.float64()),
        ("compression_ratio", pa.float64()),
        ("window_id", pa.int64()),
        ("words", pa.list_(WORD)),
        ("decoding_pass", pa.int64()),
        ("flags", pa.list_(pa.string())),
        ("excluded", pa.bool_()),
    ]
)

SPEECH_SPANS = pa.schema([("episode_id", pa.string()), ("start_ms", pa.int64()), ("end_ms", pa.int64())])
"""Where voice activity detection hears speech, beside `transcripts`."""

CHUNKS = pa.schema(
    [
        ("chunk_id", pa.string()),
        ("episode_id", pa.string()),
        ("layer", pa.string()),
        ("chunk_idx", pa.int64()),
        ("start_ms", pa.int64()),
        ("end_ms", pa.int64()),
        ("heading", pa.string()),
        ("text", pa.string()),
        ("language", pa.string()),
        ("n_words", pa.int64()),
        ("first_segment", pa.int64()),
        ("last_segment", pa.int64()),
        ("text_sha256", pa.string()),
    ]
)


def embeddings_schema(dimensions: int) -> pa.Schema:
    """The columns of `embeddings` and `vector_index` for vectors of `dimensions` float32 values."""
    vector = pa.list_(pa.float32(), dimensions)
    columns = [("chunk_id", pa.string()), ("embedding", vector), ("model", pa.string())]
    return pa.schema([*columns, ("n_tokens", pa.int64()), ("max_tokens", pa.int64())])


TOKEN_COUNTS = pa.schema([("chunk_id", pa.string()), ("n_tokens", pa.int64()), ("max_tokens", pa.int64())])
"""Of `embeddings`, whatever the size of the vectors."""

POSTINGS = pa.schema([("term", pa.string()), ("chunk_id", pa.string()), ("tf", pa.int64())])
BM25_DOCUMENTS = pa.schema([("chunk_id", pa.string()), ("language", pa.string()), ("n_terms", pa.int64())])
BM25_CORPUS = pa.schema(
    [
        ("n_documents", pa.int64()),
        ("n_distinct_terms", pa.int64()),
        ("average_document_terms", pa.float64()),
        ("average_idf", pa.float64()),
        ("k1", pa.float64()),
        ("b", pa.float64()),
        ("epsilon", pa.float64()),
        ("normalizer", pa.string()),
        ("normalizer_version", pa.string()),
    ]
)

VECTOR_INDEX_MODEL = pa.schema(
    [("model", pa.string()), ("digest", pa.string()), ("passage_prompt", pa.string()), ("dimensions", pa.int64())]
)
"""Beside `vector_index`: how a query has to be embedded for it."""

GOLD_SET = pa.schema(
    [
        ("query_id", pa.string()),
        ("query", pa.string()),
        ("language", pa.string()),
        ("kind", pa.string()),
        ("split", pa.string()),
        ("critical", pa.bool_()),
        ("episode_id", pa.string()),
        ("layer", pa.string()),
        ("start_ms", pa.int64()),
        ("end_ms", pa.int64()),
        ("heading", pa.string()),
    ]
)

RANKINGS = pa.schema(
    [
        ("mode", pa.string()),
        ("query_id", pa.string()),
        ("rank", pa.int64()),
        ("chunk_id", pa.string()),
        ("score", pa.float64()),
    ]
)

EVAL_SCORES = pa.schema(
    [
        ("mode", pa.string()),
        ("metric", pa.string()),
        ("slice", pa.string()),
        ("value", pa.float64()),
        ("ci_low", pa.float64()),
        ("ci_high", pa.float64()),
        ("n_queries", pa.int64()),
    ]
)

JUMP_INS = pa.schema(
    [
        ("mode", pa.string()),
        ("query_id", pa.string()),
        ("chunk_id", pa.string()),
        ("cited_ms", pa.int64()),
        ("judged_start_ms", pa.int64()),
        ("offset_ms", pa.int64()),
    ]
)
"""Beside `eval_scores`: the time that each mode cites first, against the judged start."""

QRELS = pa.schema([("query_id", pa.string()), ("span_idx", pa.int64()), ("chunk_id", pa.string())])
"""Beside `eval_scores`: the passages that hit each judged span, counted from 0 among the spans of its query that are hit."""

DETECTABLE = pa.schema(
    [
        ("slice", pa.string()),
        ("mode", pa.string()),
        ("metric", pa.string()),
        ("like_mode", pa.string()),
        ("spread", pa.float64()),
        ("effect", pa.float64()),
        ("n_queries", pa.int64()),
    ]
)
"""Beside `eval_scores`: the smallest loss that the gold set can tell from chance; see `evaluation/power.py`."""

EVAL_CORPUS = pa.schema(
    [
        ("n_passages", pa.int64()),
        ("n_episodes", pa.int64()),
        ("n_queries", pa.int64()),
        ("n_spans", pa.int64()),
        ("n_lost_spans", pa.int64()),
        ("dense_backend", pa.string()),
        ("default_mode", pa.string()),
    ]
)
"""Beside `eval_scores`: what the figures were measured on."""

EVAL_HISTORY = pa.schema(
    [
        ("measurement", pa.string()),
        ("measured_at", pa.string()),
        ("fingerprint", pa.string()),
        ("data_version", pa.string()),
        ("trigger", pa.string()),
        *EVAL_SCORES,
        ("batch", pa.string()),
    ]
)
"""The rows of `eval_scores` of every measurement: when (UTC), of what, at whose asking, and in which file they are."""


RANK_CHANGE = pa.struct(
    [
        ("change", pa.string()),
        ("query_id", pa.string()),
        ("query", pa.string()),
        ("mode", pa.string()),
        ("old_rank", pa.string()),
        ("new_rank", pa.string()),
        ("now_first", pa.string()),
    ]
)
"""A query that was won or lost. A rank is that of the best passage of each span, `-` where none is kept; NULL where there is
none to tell."""

GATES = pa.schema(
    [
        ("gate", pa.string()),
        ("passed", pa.bool_()),
        ("severity", pa.string()),
        ("message", pa.string()),
        ("details", pa.list_(RANK_CHANGE)),
    ]
)
"""Beside `eval_scores`: what became of each gate. One that failed with the severity `error` keeps the index from being
published; one that passed with the severity `warn` could not look at all it should."""

FINDING = pa.struct([("check", pa.string()), ("severity", pa.string()), ("message", pa.string())])
"""A check that an episode did not pass."""

EPISODES = pa.schema(
    [
        ("episode_id", pa.string()),
        ("title", pa.string()),
        ("published_at", pa.string()),
        ("language", pa.string()),
        ("duration_ms", pa.int64()),
        ("status", pa.string()),
        ("status_reason", pa.string()),
        ("n_chunks_notes", pa.int64()),
        ("n_chunks_transcript", pa.int64()),
        ("findings", pa.list_(FINDING)),
    ]
)

PUBLISHED_INDEX = pa.schema(
    [
        ("snapshot_id", pa.string()),
        ("n_episodes", pa.int64()),
        ("n_passages", pa.int64()),
        ("n_segments", pa.int64()),
        ("n_queries", pa.int64()),
        ("default_mode", pa.string()),
        ("embedding_model", pa.string()),
    ]
)
"""One row. `n_queries` counts those that were measured. Times are in the snapshot's manifest: equal content has none."""

# Of each asset, its own columns and those of the tables beside it. The vectors' size comes with the model.
COLUMNS_OF = {
    "audio": (AUDIO,),
    "notes": (NOTES,),
    "transcripts": (TRANSCRIPTS, SPEECH_SPANS),
    "chunks": (CHUNKS,),
    "embeddings": (embeddings_schema(-1),),
    "episodes": (EPISODES,),
    "bm25_raw_index": (POSTINGS, BM25_DOCUMENTS, BM25_CORPUS),
    "bm25_stem_index": (POSTINGS, BM25_DOCUMENTS, BM25_CORPUS),
    "vector_index": (embeddings_schema(-1), VECTOR_INDEX_MODEL),
    "gold_set": (GOLD_SET,),
    "eval_scores": (EVAL_SCORES, RANKINGS, EVAL_CORPUS, JUMP_INS, QRELS, DETECTABLE, GATES),
    "published_index": (PUBLISHED_INDEX,),
}


def columns_fingerprint(asset: str) -> str:
    """Changes with the columns that an asset gives, so that what an older version wrote is derived again."""
    return hashlib.sha256("\n".join(str(schema) for schema in COLUMNS_OF[asset]).encode()).hexdigest()[:12]
