"""How much of the speech that is heard the segments cover: what was skipped leaves no other trace."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from librarian_pipeline.speech.flags import overlap_ms
from librarian_pipeline.speech.samples import MsSpan

# Between segments and around them: a pause for breath is heard as speech, and word times are no more exact than this.
TOLERANCE_MS = 500


@dataclass(frozen=True)
class Coverage:
    """Speech that is heard and speech that segments cover, in milliseconds, and the gaps between segments, excluded ones
    not counted, in which more than so much speech was left out: from where its speech begins to where it ends."""

    speech_ms: int
    covered_ms: int
    uncovered: tuple[MsSpan, ...]

    @property
    def share(self) -> float:
        """Of the speech, what is covered, from 0 to 1; 1 where there is no speech."""
        return self.covered_ms / self.speech_ms if self.speech_ms else 1.0


def coverage(rows: Iterable[Mapping[str, Any]], heard: Sequence[MsSpan], max_uncovered_s: float) -> Coverage:
    """The coverage of the spans `heard` (sorted) by segments of `schemas.TRANSCRIPTS`.

    A segment also covers half a second on both its sides. A gap counts with all its speech, since someone who goes on
    speaking pauses between sentences.
    """
    told = [row for row in rows if not row["excluded"]]
    segments = _merged((max(0, row["start_ms"] - TOLERANCE_MS), row["end_ms"] + TOLERANCE_MS) for row in told)
    end_ms = max((end for _, end in heard), default=0)
    gap_starts = [0, *(end for _, end in segments)]
    gap_ends = [*(start for start, _ in segments), max(end_ms, gap_starts[-1])]
    gaps = [(start, end) for start, end in zip(gap_starts, gap_ends, strict=True) if end > start]
    return Coverage(
        speech_ms=sum(end - start for start, end in heard),
        covered_ms=sum(overlap_ms(start, end, heard) for start, end in segments),
        uncovered=tuple(_speech_in(gap, heard) for gap in gaps if overlap_ms(*gap, heard) > max_uncovered_s * 1_000),
    )


def _merged(spans: Iterable[MsSpan]) -> list[MsSpan]:
    merged: list[MsSpan] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _speech_in(gap: MsSpan, heard: Sequence[MsSpan]) -> MsSpan:
    inside = [(max(start, gap[0]), min(end, gap[1])) for start, end in heard if start < gap[1] and end > gap[0]]
    return inside[0][0], inside[-1][1]
