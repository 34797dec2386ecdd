"""Made-up words of two languages, which come up by Zipf's law behind a few real ones."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

VOCABULARY = 20_000


@dataclass(frozen=True)
class Language:
    """`words` go from the most frequent to the least."""

    code: str
    words: tuple[str, ...]


def _language(code: str, common: str, syllables: str, endings: Sequence[str]) -> Language:
    """The commonest words are real, the others syllables with an ending of the language, which stemmers take off."""
    stems = itertools.chain.from_iterable(itertools.product(syllables.split(), repeat=n) for n in (2, 3))
    made = [f"{''.join(stem)}{ending}" for stem in stems for ending in endings]
    random.Random(code).shuffle(made)
    return Language(code, (*common.split(), *made)[:VOCABULARY])


ENGLISH = _language(
    "en",
    common="the of and a to in is that it was for on with as we you this have but not",
    syllables="bra cle dor fen gri hal jom kep lun mar nis pol quo ral sto tib uld ven wex yor",
    endings=("", "s", "ing", "ed"),
)
CZECH = _language(
    "cs",
    common="a se v na je že to s z do jsem i by o jak ale tak pro když po",
    syllables="bře čar dlu fou hle chy jed kro lou mži náh pře říz sko šti tva ús vrb zme žal",
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
