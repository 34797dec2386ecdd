"""What was lost of a file's audio, and how that is told."""

from dataclasses import dataclass, field

from librarian_pipeline.archive.timecodes import format_timecode

MOST_PLACES_NAMED = 3


@dataclass(frozen=True)
class _Loss:
    at_s: float
    seconds: float


@dataclass
class Damage:
    """Times are seconds from the beginning of what was decoded."""

    bad_packets: int = 0
    _bridged: list[_Loss] = field(default_factory=list)
    _unbridged: list[_Loss] = field(default_factory=list)
    _at_end: list[_Loss] = field(default_factory=list)
    _others: list[str] = field(default_factory=list)

    def bridged(self, at_s: float, seconds: float) -> None:
        """Silence stands for what was lost, so that later times are right."""
        self._bridged.append(_Loss(at_s, seconds))

    def unbridged(self, at_s: float, seconds: float) -> None:
        """The file's times go on later than is plausible, and weren't followed."""
        self._unbridged.append(_Loss(at_s, seconds))

    def at_end(self, at_s: float, seconds: float) -> None:
        """Nothing that can be decoded comes after it."""
        self._at_end.append(_Loss(at_s, seconds))

    def other(self, reason: str) -> None:
        """Anything else that keeps the audio from being whole, in words."""
        self._others.append(reason)

    def reasons(self) -> list[str]:
        """What was lost and where, a phrase each; empty where nothing was."""
        kind = "damaged" if self.bad_packets else "missing"
        found = [
            f"{_amount(losses)} of {kind} audio {_places(losses)} {what}"
            for losses, what in (
                (self._bridged, "were replaced by silence"),
                (self._at_end, "could not be decoded, and nothing follows"),
            )
            if losses
        ]
        if self._unbridged:
            found.append(f"the file's times jump by {_amount(self._unbridged)} {_places(self._unbridged)}: not followed")
        if self.bad_packets and not found:
            found.append(f"{self.bad_packets} damaged packets were skipped")
        return found + self._others


def _amount(losses: list[_Loss]) -> str:
    seconds = sum(loss.seconds for loss in losses)
    return f"{seconds:.1f} s" if seconds >= 0.1 else "less than 0.1 s"


def _places(losses: list[_Loss]) -> str:
    named = ", ".join(format_timecode(round(loss.at_s * 1_000)) for loss in losses[:MOST_PLACES_NAMED])
    more = len(losses) - MOST_PLACES_NAMED
    return f"at {named}" + (f" and {more} more places" if more > 0 else "")
