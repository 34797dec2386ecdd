"""The assets: each a step of the library, with what Dagster's users see of it."""

from librarian_pipeline.checks import AUDIO_CHECKS, EMBEDDING_CHECKS, GATES, TRANSCRIPT_CHECKS
from librarian_pipeline.defs.declaration import asset_of

ASSETS = [
    asset_of("audio", checks=AUDIO_CHECKS),
    asset_of("notes", "markdown"),
    asset_of("transcripts", "whisper", checks=TRANSCRIPT_CHECKS),
    asset_of("chunks"),
    asset_of("embeddings", checks=EMBEDDING_CHECKS),
    asset_of("episodes"),
    asset_of("bm25_raw_index"),
    asset_of("bm25_stem_index"),
    asset_of("vector_index"),
    asset_of("gold_set", "json"),
    asset_of("eval_scores", checks=GATES),
    asset_of("published_index"),
]
