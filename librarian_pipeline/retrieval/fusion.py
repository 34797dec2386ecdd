"""Reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009)."""

from collections.abc import Sequence

from librarian_pipeline.retrieval.ranking import Ranked


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Ranked]], c: int) -> list[Ranked]:
    """The union of the rankings by the sum of 1 / (c + rank), ranks from 1; ties by best rank, then by id."""
    scores: dict[str, float] = {}
    best_ranks: dict[str, int] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, start=1):
            scores[hit.chunk_id] = scores.get(hit.chunk_id, 0.0) + 1 / (c + rank)
            best_ranks[hit.chunk_id] = min(rank, best_ranks.get(hit.chunk_id, rank))
    order = sorted(scores, key=lambda chunk_id: (-scores[chunk_id], best_ranks[chunk_id], chunk_id))
    return [Ranked(chunk_id, scores[chunk_id]) for chunk_id in order]
