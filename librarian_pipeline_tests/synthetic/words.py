"""Made-up words of two languages, which come up by Zipf's law behind a few real ones."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

VOCABULARY = 20_000


@dataclass(frozen=True)
class Language:
    """Its commonest words are real, the others syllables with an ending of the language, which stemmers take off."""

    code: str
    common: tuple[str, ...]
    syllables: tuple[str, ...]
    endings: tuple[str, ...]
    words: tuple[str, ...] = field(init=False, repr=False)
    """From the most frequent to the least."""

    def __post_init__(self) -> None:
        made = [f"{''.join(parts)}{end}" for parts in self._stems() for end in self.endings]
        random.Random(self.code).shuffle(made)
        object.__setattr__(self, "words", (*self.common, *made)[:VOCABULARY])

    def _stems(self) -> itertools.chain[tuple[str, ...]]:
        return itertools.chain.from_iterable(itertools.product(self.syllables, repeat=n) for n in (2, 3))


ENGLISH = Language(
    "en",
    common=tuple("the of and a to in is that it was for on with as we you this have but not".split()),
    syllables=tuple("bra cle dor fen gri hal jom kep lun mar nis pol quo ral sto tib uld ven wex yor".split()),
    endings=("", "s", "ing", "ed"),
)
CZECH = Language(
    "cs",
    common=tuple("a se v na je že to s z do jsem i by o jak ale tak pro když po".split()),
    syllables=tuple("bře čar dlu fou hle chy jed kro lou mži náh pře říz sko šti tva ús vrb zme žal".split()),
    endings=("", "u", "ou", "ách"),
)
_WEIGHTS = list(itertools.accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))


def draw(language: Language, n: int, random_source: random.Random) -> list[str]:
    """`n` words: that of rank r comes up in proportion to 1/r."""
    return random_source.choices(language.words, cum_weights=_WEIGHTS, k=n)


def rarest(words: Sequence[str], language: Language, n: int) -> list[str]:
    """The `n` least frequent of these words, each once."""
    rank = {word: number for number, word in enumerate(language.words)}
    return sorted(set(words), key=lambda word: -rank[word])[:n]
