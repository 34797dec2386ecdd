"""Which checks block: nothing is derived from a transcript whose times are wrong, or of which too much is invented, and no
index is published that failed a gate.

The measure is kept with the output, and judged against the settings of the day: a threshold that changes transcribes nothing
anew. Of gates it is kept which failed: their thresholds are in the recipe of `eval_scores`.
"""

from collections.abc import Iterable, Mapping

from librarian_pipeline.checks.gates import GATES, MEASURE, failed_gates
from librarian_pipeline.checks.outcome import Outcome, Severity
from librarian_pipeline.checks.transcript import HALLUCINATION, TIMES
from librarian_pipeline.settings import CheckSettings

BLOCKING_CHECKS = frozenset({TIMES, HALLUCINATION, *GATES})


def measures_of(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """What is kept with an output of its checks that can block."""
    measures = {}
    for outcome in outcomes:
        if outcome.check in GATES:
            if not outcome.passed and outcome.severity is Severity.ERROR:
                measures[f"{MEASURE}{outcome.check}"] = 1.0
        elif outcome.check in BLOCKING_CHECKS:
            measures[outcome.check] = outcome.value
    return measures


def blocking_reason(measures: Mapping[str, float], settings: CheckSettings) -> str | None:
    """Why nothing may be derived from an output with these measures; None if it may."""
    if measures.get(TIMES, 0) > 0:
        return f"{measures[TIMES]:.0f} segments are out of order or range"
    if measures.get(HALLUCINATION, 0) > settings.fail_hallucination_share:
        allowed = f"at most {settings.fail_hallucination_share:.1%} ([checks] fail_hallucination_share)"
        return f"{measures[HALLUCINATION]:.1%} of the speech is invented or repeated, where {allowed} may be"
    if failed := failed_gates(measures):
        return f"it failed {'a gate' if len(failed) == 1 else f'{len(failed)} gates'}: {', '.join(failed)}"
    return None
