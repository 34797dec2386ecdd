"""Asset checks: what to say of an episode whose audio, transcript or passages are not as they should be."""

from librarian_pipeline.checks.audio import AUDIO_CHECKS, audio_outcomes
from librarian_pipeline.checks.blocking import BLOCKING_CHECKS, measures_of
from librarian_pipeline.checks.findings import find
from librarian_pipeline.checks.gates import GATES, gate_outcomes
from librarian_pipeline.checks.outcome import Outcome, Severity
from librarian_pipeline.checks.passages import EMBEDDING_CHECKS, embedding_outcomes
from librarian_pipeline.checks.transcript import TRANSCRIPT_CHECKS, transcript_outcomes

__all__ = [
    "AUDIO_CHECKS",
    "BLOCKING_CHECKS",
    "EMBEDDING_CHECKS",
    "GATES",
    "TRANSCRIPT_CHECKS",
    "Outcome",
    "Severity",
    "audio_outcomes",
    "embedding_outcomes",
    "find",
    "gate_outcomes",
    "measures_of",
    "transcript_outcomes",
]
