"""The assets: each a step of the library, with what Dagster's users see of it."""

import dagster as dg

from librarian_pipeline.checks import AUDIO_CHECKS, EMBEDDING_CHECKS, TRANSCRIPT_CHECKS
from librarian_pipeline.defs.declaration import asset_of
from librarian_pipeline.defs.resources import ArchiveResource
from librarian_pipeline.evaluation.measure import lost_labels

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
    asset_of("eval_scores"),
    asset_of("published_index"),
]


@dg.asset_check(asset="eval_scores", description="Every judged span of the gold set is hit by at least one passage.")
def gold_labels_resolve(archive: ArchiveResource) -> dg.AssetCheckResult:
    """Every judged span of the gold set is hit by at least one passage."""
    lost = lost_labels(archive.open().warehouse)
    return dg.AssetCheckResult(passed=not lost, metadata={"lost": dg.MetadataValue.json(lost)})
