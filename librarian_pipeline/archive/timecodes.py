"""Times as people write them (`08:03`, `1:02:03.500`), to and from milliseconds."""

import re

MS_PER_SECOND = 1_000
MS_PER_HOUR = 3_600_000
# Four digits of hours keep a time that is only noise from overflowing a BIGINT column.
MAX_MS = 10_000 * MS_PER_HOUR - 1

_TIMECODE = re.compile(r"(?:(?P<h>[0-9]{1,4}):(?=[0-5][0-9]:))?(?P<m>[0-9]{1,2}):(?P<s>[0-5][0-9])(?:[.,](?P<ms>[0-9]{3}))?")


def parse_timecode(text: str) -> int:
    """Milliseconds of `m:ss`, `mm:ss` or `h:mm:ss`, each with an optional `.mmm` or `,mmm`.

    Without hours, minutes go up to 99. Raises `ValueError` for anything else.
    """
    match = _TIMECODE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time: write it as 08:03 or 1:08:03")
    hours, minutes, seconds, milliseconds = (int(match[group] or 0) for group in ("h", "m", "s", "ms"))
    return ((hours * 60 + minutes) * 60 + seconds) * MS_PER_SECOND + milliseconds


def format_timecode(ms: int) -> str:
    """`08:03`, and from the hour on `1:08:03`, for a time in milliseconds; parts of a second are dropped.

    Raises `ValueError` for a negative time.
    """
    if ms < 0:
        raise ValueError(f"a time can't be negative: {ms} ms")
    minutes, seconds = divmod(ms // MS_PER_SECOND, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


def format_exact(ms: int) -> str:
    """`08:03.250`: with the parts of the second. Raises `ValueError` for a negative time."""
    return f"{format_timecode(ms)}.{ms % MS_PER_SECOND:03}"
