"""What a check found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    WARN = "warn"
    """Worth a look; the episode is as good as it can be made."""
    ERROR = "error"
    """Something is wrong that a person has to mend, and nothing is derived from it until then."""


@dataclass(frozen=True)
class Outcome:
    """`message` names the place in the episode where there is one; `value` is what was measured, in the check's own unit.

    `details` are rows to look at, all with the same columns.
    """

    check: str
    passed: bool
    message: str
    value: float
    severity: Severity = Severity.WARN
    details: Sequence[Mapping[str, Any]] = ()
