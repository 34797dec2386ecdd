"""What the tools take. Each description says what is allowed: clients see it in the schema, and in the error."""

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field

from librarian_pipeline.archive.timecodes import MS_PER_SECOND, parse_timecode
from librarian_pipeline.settings import Mode

MAX_QUERY = 2_000
MAX_K = 50
MAX_WINDOW_S = 3_600
MAX_AROUND_S = 36_000_000
EPISODE_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def _without_controls(text: str) -> str:
    """Raises `ValueError` for what no passage holds: NUL, other controls, half characters, or nothing but white space."""
    if not text.strip():
        raise ValueError("blank")
    if any(unicodedata.category(char) in ("Cc", "Cs") and char not in "\t\n\r" for char in text):
        raise ValueError("control characters")
    return text


def _timecode(text: str) -> str:
    parse_timecode(text)
    return text


Query = Annotated[
    str,
    Field(
        strict=True,
        min_length=1,
        max_length=MAX_QUERY,
        description=f"what to look for, in any language: 1 to {MAX_QUERY:,} characters, not blank, no control characters",
    ),
    AfterValidator(_without_controls),
]
Count = Annotated[
    int, Field(strict=True, ge=1, le=MAX_K, description=f"how many passages: a whole number from 1 to {MAX_K}")
]
ChosenMode = Annotated[
    Mode | None,
    Field(
        description="how to rank: bm25_raw (exact words), bm25_stem (words by their lemmas), dense (meaning), hybrid (both,"
        " by ranks), hybrid_cc (both, by scores); leave it out for the mode that the index was published with"
    ),
]
EpisodeId = Annotated[
    str, Field(strict=True, pattern=EPISODE_ID, description="the id of an episode, such as ep03: list_episodes gives them")
]
Around = Annotated[
    Annotated[int, Field(strict=True, ge=0, le=MAX_AROUND_S)]
    | Annotated[str, Field(max_length=16), AfterValidator(_timecode)]
    | None,
    Field(description='only passages near this time: "08:03", "1:08:03", or whole seconds such as 483'),
]
Window = Annotated[
    int,
    Field(
        strict=True,
        ge=1,
        le=MAX_WINDOW_S,
        description=f"with around: how many seconds to either side, a whole number from 1 to {MAX_WINDOW_S:,}",
    ),
]
Cursor = Annotated[
    str | None,
    Field(max_length=128, description="next_cursor of the page before, as it was given; leave it out for the first page"),
]


def milliseconds(around: int | str) -> int:
    return parse_timecode(around) if isinstance(around, str) else around * MS_PER_SECOND
