"""Which checks block: nothing is derived from a transcript whose times are wrong, or of which too much is invented.

The measure is kept with the output, and judged against the settings of the day: a threshold that changes transcribes nothing
anew.
"""

from collections.abc import Mapping

from librarian_pipeline.checks.transcript import HALLUCINATION, TIMES
from librarian_pipeline.settings import CheckSettings

BLOCKING_CHECKS = frozenset({TIMES, HALLUCINATION})


def blocking_reason(measures: Mapping[str, float], settings: CheckSettings) -> str | None:
    """Why nothing may be derived from an output with these measures; None if it may."""
    if measures.get(TIMES, 0) > 0:
        return f"{measures[TIMES]:.0f} segments are out of order or range"
    if measures.get(HALLUCINATION, 0) > settings.fail_hallucination_share:
        allowed = f"at most {settings.fail_hallucination_share:.1%} ([checks] fail_hallucination_share)"
        return f"{measures[HALLUCINATION]:.1%} of the speech is invented or repeated, where {allowed} may be"
    return None
