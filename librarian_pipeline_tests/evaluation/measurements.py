"""Made-up measurements: ranks by mode and query, without an index behind them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from librarian_pipeline.evaluation.baseline import Accepted, Baseline
from librarian_pipeline.evaluation.gates import Candidate, GateResult, evaluate_gates
from librarian_pipeline.evaluation.ranks import Measurement, Place, QueryRanks
from librarian_pipeline.settings import GateSettings

MODES = ("bm25_raw", "bm25_stem", "dense", "hybrid")
KEPT = 100


def measurement(
    ranks: Mapping[str, Sequence[int | None]], *, mode: str = "hybrid", fingerprint: str = "one", **changes: Any
) -> Measurement:
    """One judged span a query. `ranks` by mode, a rank for each query; modes that are not named have those of `hybrid`.

    `changes` are those of every query.
    """
    columns = {name: ranks.get(name, ranks["hybrid"]) for name in MODES}
    queries = [f"q{number:03d}" for number in range(len(columns["hybrid"]))]
    return Measurement(
        fingerprint,
        mode,
        {
            query_id: QueryRanks(
                query_id,
                **{
                    "query": f"What of {query_id}?",
                    "critical": False,
                    "spans": ("ep01 transcript 00:00-00:20",),
                    "lost": (),
                    "places": {name: place(column[number]) for name, column in columns.items()},
                    **changes,
                },
            )
            for number, query_id in enumerate(queries)
        },
    )


def place(rank: int | None) -> Place:
    """The judged passage stands at that rank, behind others of its own."""
    first = "ep01:t000" if rank == 1 else "ep02:t007"
    return Place((rank,), first, f"Ep. {first[:4]} @ 00:10")


def judge(
    now: Measurement, before: Measurement | None, *, release: Measurement | None = None, settings: Any = None, **changes: Any
) -> dict[str, GateResult]:
    """The gates' results by their names, of a measurement held against a baseline."""
    released = Accepted("2025-01-01", release) if release else None
    accepted = Baseline(Accepted("2026-01-01", before), released) if before else None
    figures = {(mode, metric): value for mode, of_mode in now.figures().items() for metric, value in of_mode.items()}
    candidate = Candidate(now, **{"results": {}, "figures": figures, **changes})
    return {result.gate: result for result in evaluate_gates(candidate, accepted, GateSettings(**(settings or {})))}


def failed(results: Mapping[str, GateResult]) -> set[str]:
    """Those that keep an index from being published."""
    return {name for name, result in results.items() if not result.passed and result.severity == "error"}


def some_ranks(random: np.random.Generator, n: int) -> list[int | None]:
    """As of a mode that finds most, half of it first."""
    drawn = np.minimum(random.geometric(0.45, size=n), KEPT)
    return [None if missed else int(rank) for rank, missed in zip(drawn, random.random(n) < 0.15, strict=True)]
