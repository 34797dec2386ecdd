"""The gates of `eval_scores`: what an index has to pass before it may be published."""

from collections.abc import Iterable, Mapping
from typing import Any

from librarian_pipeline.checks.outcome import Outcome, Severity

REPRODUCIBILITY, PRIMARY, OTHERS, BACKSTOP = "reproducibility", "primary_metric", "other_metrics", "backstop"
CRITICAL, FUSION, BEST_BRANCH, RELEASE = "critical_queries", "fusion", "best_branch", "last_release"
LABELS, FLOORS, README, FILES = "labels", "floors", "readme_table", "stored_files"
GATES = {
    FILES: "The stored files that were measured hold what was written to them.",
    LABELS: "Every judged span of the gold set is hit by at least one passage.",
    REPRODUCIBILITY: "The same passages, queries and settings give the same ranks.",
    PRIMARY: "The primary metric of the default mode is not significantly below the accepted baseline.",
    OTHERS: "No other metric of any mode is significantly below the accepted baseline, corrected for how many they are.",
    BACKSTOP: "The primary metric of the default mode did not fall far, whether or not few queries can prove it.",
    CRITICAL: "The default mode finds every query that is marked critical.",
    FUSION: "Every fused mode is above the weaker of its branches.",
    BEST_BRANCH: "The default mode is not significantly below the best mode that is not fused.",
    RELEASE: "The primary metric of the default mode is not significantly below that of the last release.",
    FLOORS: "No figure is below the floor that the settings give it.",
    README: "The score table of the README is the one that is measured.",
}
"""What each gate looks at."""

MEASURE = "gate:"
"""Before the name of a gate among an output's measures: it failed."""


def gate_outcomes(rows: Iterable[Mapping[str, Any]]) -> list[Outcome]:
    """Of the rows of `schemas.GATES`."""
    return [
        Outcome(
            row["gate"],
            row["passed"],
            row["message"],
            float(is_failure(row)),
            Severity(row["severity"]),
            row["details"],
        )
        for row in rows
    ]


def is_failure(row: Mapping[str, Any]) -> bool:
    """Whether a gate keeps the index from being published."""
    return not row["passed"] and row["severity"] == Severity.ERROR


def failed_gates(measures: Mapping[str, float]) -> list[str]:
    """The names of the gates that an output failed, by its measures."""
    return [name.removeprefix(MEASURE) for name in measures if name.startswith(MEASURE)]
