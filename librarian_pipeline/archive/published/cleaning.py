"""From the cues of a file to segments: in order, each with an end, nothing said twice, no segment of a single word.

Each step gives back the cues that are left; what it merged away is counted, so that read = kept + merged + rejected.
"""

import bisect
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from librarian_pipeline.archive.published.cues import Cue, Flag, Parsed, Rejected, Word, ends_sentence
from librarian_pipeline.archive.timecodes import MS_PER_SECOND
from librarian_pipeline.settings import CheckSettings

# For a cue that doesn't say when it ends.
SPEECH_CHARACTERS_PER_S = 15
MIN_CUE_MS = 1_000
LONG_CUE_MS = round(CheckSettings().max_segment_s * MS_PER_SECOND)

# Two cues may happen to share words; a file counts as rolling when it happens this often.
MIN_ROLLING_PAIRS = 2
MIN_ROLLING_SHARE = 0.25
# No screen shows more words than this; without it, a huge cue would take forever.
MAX_ROLLING_WORDS = 100

MIN_WORD_CUES = 3
MAX_WORDS_PER_WORD_CUE = 2
WORD_PAUSE_MS = 1_000
MAX_MERGED_MS = 15_000

# As many identical segments in a row are a loop of whatever made the transcript, rather than speech.
LOOP_REPEATS = CheckSettings().max_repeats

_MIN_CUES_TO_JUDGE_TIMES = 3
_ONLY_CLOSING_SIGNS = re.compile(r"[.,;:!?…)\]”’»%]+")


def clean(found: Sequence[Parsed]) -> tuple[list[Cue], dict[str, int]]:
    """The segments of a file, sorted by start, each with an end; and the counts.

    `read` = `kept` + all `merged_*` + all `rejected_*`; counts of nothing are left out.
    """
    counts = Counter({"read": len(found)})
    counts.update(f"rejected_{reason}" for reason in found if isinstance(reason, Rejected))
    cues = _with_ends(_in_order(cue for cue in found if isinstance(cue, Cue)))
    for step, name in ((_unroll, "merged_rolling"), (_join_words, "merged_words"), (_collapse_loops, "merged_repeats")):
        left = step(cues)
        counts[name] += len(cues) - len(left)
        cues = left
    counts["kept"] = len(cues)
    return _flag_times(cues), {name: n for name, n in counts.items() if n or name in ("read", "kept")}


def _flagged(cue: Cue, flag: Flag) -> Cue:
    return cue if flag in cue.flags else replace(cue, flags=(*cue.flags, flag))


def _in_order(cues: Iterable[Cue]) -> list[Cue]:
    latest, seen = -1, []
    for cue in cues:
        seen.append(_flagged(cue, Flag.OUT_OF_ORDER) if cue.start_ms < latest else cue)
        latest = max(latest, cue.start_ms)
    return sorted(seen, key=lambda cue: cue.start_ms)


def _with_ends(cues: list[Cue]) -> list[Cue]:
    """The cues, sorted by start, each with an end: that of the file, else the next start, else a guess from its length."""
    starts = [cue.start_ms for cue in cues]
    ended = []
    for cue in cues:
        if cue.end_ms is None:
            spoken_ms = _spoken_ms(cue.text)
            following = bisect.bisect_right(starts, cue.start_ms)
            if following < len(starts):  # a long gap after it is no part of it
                end_ms = min(starts[following], cue.start_ms + max(spoken_ms, LONG_CUE_MS))
            else:
                end_ms = cue.start_ms + spoken_ms
            cue = replace(cue, end_ms=end_ms)
        ended.append(cue)
    return ended


def _spoken_ms(text: str) -> int:
    return max(MIN_CUE_MS, len(text) * MS_PER_SECOND // SPEECH_CHARACTERS_PER_S)


def _end_ms(cue: Cue) -> int:
    assert cue.end_ms is not None  # from `_with_ends` on
    return cue.end_ms


# Rolling captions: each cue shows the words of the one before it again, as on a screen of two lines, or word by word.


def _unroll(cues: list[Cue]) -> list[Cue]:
    tokens = [cue.text.casefold().split() for cue in cues]
    shared = [_shared(before, after) for before, after in itertools.pairwise([[], *tokens])]
    evidence = sum(n >= 2 and n < len(after) for n, after in zip(shared, tokens, strict=True))
    if evidence < MIN_ROLLING_PAIRS or evidence < MIN_ROLLING_SHARE * (len(cues) - 1):
        return cues
    left: list[Cue] = []
    for cue, n in zip(cues, shared, strict=True):
        rest = " ".join(cue.text.split()[n:])
        if not rest:
            continue
        if n and left and left[-1].start_ms < cue.start_ms < _end_ms(left[-1]):
            left[-1] = replace(left[-1], end_ms=cue.start_ms)  # longer on the screen than in the air
        left.append(_flagged(replace(cue, text=rest), Flag.ROLLING) if n else cue)
    return left


def _shared(before: list[str], after: list[str]) -> int:
    """How many words `after` begins with that `before` ends with: all of `before`, or at least two."""
    for n in range(min(len(before), len(after), MAX_ROLLING_WORDS), 0, -1):
        if before[-n:] == after[:n] and (n >= 2 or n == len(before)):
            return n
    return 0


# A word a cue


def _join_words(cues: list[Cue]) -> list[Cue]:
    """Sentences, or what is between two pauses, out of a file whose cues are hardly more than a word each."""
    n_words = sum(len(cue.text.split()) for cue in cues)
    if len(cues) < MIN_WORD_CUES or n_words >= MAX_WORDS_PER_WORD_CUE * len(cues):
        return cues
    runs: list[list[Cue]] = []
    for cue in cues:
        if runs and _continues(runs[-1], cue):
            runs[-1].append(cue)
        else:
            runs.append([cue])
    return [_joined(run) for run in runs]


def _continues(run: list[Cue], cue: Cue) -> bool:
    return (
        cue.speaker == run[0].speaker
        and not cue.begins_turn
        and (not ends_sentence(run[-1].text) or _ONLY_CLOSING_SIGNS.fullmatch(cue.text) is not None)
        and cue.start_ms - _end_ms(run[-1]) < WORD_PAUSE_MS
        and _end_ms(cue) - run[0].start_ms <= MAX_MERGED_MS
    )


def _joined(run: list[Cue]) -> Cue:
    if len(run) == 1:
        return run[0]
    text = "".join(cue.text if _ONLY_CLOSING_SIGNS.fullmatch(cue.text) else f" {cue.text}" for cue in run)
    return replace(
        run[0],
        end_ms=max(_end_ms(cue) for cue in run),
        text=text.strip(),
        flags=tuple(dict.fromkeys(flag for cue in run for flag in cue.flags)),
        words=tuple(Word(cue.text, cue.start_ms, _end_ms(cue)) for cue in run),
    )


# Loops


def _collapse_loops(cues: list[Cue]) -> list[Cue]:
    """The first of each run of identical cues that is too long to be speech, with its own times."""
    left: list[Cue] = []
    for _, same in itertools.groupby(cues, key=lambda cue: (cue.speaker, cue.text.casefold())):
        run = list(same)
        left.extend(run if len(run) < LOOP_REPEATS else [_flagged(run[0], Flag.REPEATED)])
    return left


def _flag_times(cues: list[Cue]) -> list[Cue]:
    flagged: list[Cue] = []
    ended_ms = 0
    for before, cue in zip([None, *cues], cues, strict=False):
        in_one_cue = before is not None and (before.start_ms, before.end_ms) == (cue.start_ms, cue.end_ms)
        if cue.start_ms < ended_ms and not in_one_cue:
            cue = _flagged(cue, Flag.OVERLAPPING)
        if _end_ms(cue) - cue.start_ms > LONG_CUE_MS:
            cue = _flagged(cue, Flag.LONG_CUE)
        ended_ms = max(ended_ms, _end_ms(cue))
        flagged.append(cue)
    if len(cues) >= _MIN_CUES_TO_JUDGE_TIMES and all(cue.start_ms % MS_PER_SECOND == 0 for cue in cues):
        flagged[0] = _flagged(flagged[0], Flag.WHOLE_SECONDS)
    return flagged
