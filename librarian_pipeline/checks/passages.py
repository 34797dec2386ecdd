"""Checks of passages as the embedding model reads them."""

from collections.abc import Iterable, Mapping
from typing import Any

from librarian_pipeline.checks.outcome import Outcome
from librarian_pipeline.settings import CheckSettings

TOKEN_LENGTH = "token_length"
EMBEDDING_CHECKS = {TOKEN_LENGTH: "No passage is longer than what the embedding model reads of it."}


def embedding_outcomes(rows: Iterable[Mapping[str, Any]], settings: CheckSettings) -> list[Outcome]:
    """Of rows with the `chunk_id` and `n_tokens` of `schemas.embeddings_schema`; none where the model reads any length."""
    counted = [(row["n_tokens"], row["chunk_id"]) for row in rows if row["n_tokens"] is not None]
    if not counted:
        return []
    long = sorted(pair for pair in counted if pair[0] > settings.max_passage_tokens)
    where = f"; the longest is {long[-1][1]}" if long else ""
    message = f"{len(long)} of {len(counted)} passages have more than {settings.max_passage_tokens} tokens{where}"
    return [Outcome(TOKEN_LENGTH, not long, message, max(counted)[0])]
