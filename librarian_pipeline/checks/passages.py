"""Checks of passages as the embedding model reads them."""

from collections.abc import Iterable, Mapping
from typing import Any

from librarian_pipeline.checks.outcome import Outcome
from librarian_pipeline.settings import CheckSettings

TOKEN_LENGTH = "token_length"
EMBEDDING_CHECKS = {TOKEN_LENGTH: "No passage is longer than what the embedding model reads of it."}


def embedding_outcomes(rows: Iterable[Mapping[str, Any]], settings: CheckSettings) -> list[Outcome]:
    """Of rows of `schemas.TOKEN_COUNTS`, against the model's own limit or a lower one of the settings.

    None where the model reads any length.
    """
    limited = [row for row in rows if row["max_tokens"] is not None]
    if not limited:
        return []
    limit = min(settings.max_passage_tokens, *(row["max_tokens"] for row in limited))
    counted = [(row["n_tokens"], row["chunk_id"]) for row in limited]
    long = sorted(pair for pair in counted if pair[0] > limit)
    where = f"; the longest is {long[-1][1]}" if long else ""
    message = f"{len(long)} of {len(counted)} passages have more than {limit} tokens, which is all the model reads{where}"
    return [Outcome(TOKEN_LENGTH, not long, message, max(counted)[0])]
