"""What an answer is: claims that passed the verifier, or the reason why there are none."""

from dataclasses import InitVar, dataclass
from typing import Literal

from librarian_pipeline.retrieval.citations import Citation

VERIFIED = object()
"""Held up by the verifier, so that nothing else makes a claim by mistake."""


@dataclass(frozen=True)
class Proposed:
    """What a producer says that a passage says. Nothing of it is shown before it is verified."""

    chunk_id: str
    quote: str


@dataclass(frozen=True)
class Claim:
    """`quote` and the sentences around it, `text`, both in the passage's own words, letter for letter.

    A producer's own words are never shown: no check could hold them to what was said.
    """

    text: str
    chunk_id: str
    quote: str
    citation: Citation
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not VERIFIED:
            raise TypeError("claims come from the verifier alone")


@dataclass(frozen=True)
class Answer:
    """`why` says why it is refused, else None. `warning` is that of the snapshot; `note` tells what went otherwise than set.

    `dropped` counts the claims that did not pass the verifier.
    """

    status: Literal["answered", "refused"]
    why: str | None
    claims: tuple[Claim, ...]
    snapshot: str
    warning: str | None = None
    note: str | None = None
    dropped: int = 0

    def __post_init__(self) -> None:
        answered = self.status == "answered"
        if answered != bool(self.claims) or answered != (self.why is None):
            raise ValueError("an answer has claims, and a refusal a reason instead")
