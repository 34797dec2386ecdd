"""From scores to a ranked list, with ties in a fixed order."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Ranked(NamedTuple):
    """A passage in a ranked list; the list's order is its rank."""

    chunk_id: str
    score: float


def top_k(
    chunk_ids: Sequence[str],
    scores: npt.NDArray[np.floating],
    k: int,
    candidates: npt.NDArray[np.bool_] | None = None,
) -> list[Ranked]:
    """The `k` best candidates (all documents by default) by score descending, then chunk id ascending.

    All that tie with the k-th score take part in the sort, so that the cut doesn't depend on their order in the index.
    """
    pool = np.arange(len(scores)) if candidates is None else np.flatnonzero(candidates)
    if len(pool) > k:
        kth = -np.partition(-scores[pool], k - 1)[k - 1]
        pool = pool[scores[pool] >= kth]
    ranked = [Ranked(chunk_ids[i], float(scores[i])) for i in pool.tolist()]
    return sorted(ranked, key=lambda hit: (-hit.score, hit.chunk_id))[:k]
