"""Which language is spoken: what the settings or the episode say, else what is heard."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from librarian_pipeline.errors import UsageError
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ, Samples, Span, gathered, stretch, total_size
from librarian_pipeline.speech.whisper import Whisper

WINDOW_SAMPLES = 30 * SAMPLE_RATE_HZ

Source = Literal["declared", "the model's only one", "detected"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SpokenLanguage:
    """An ISO 639-1 code, and how it was found. If `detected`, `votes` are the likeliest language of each window with its
    probability, and `probability` is the mean of that of `code` over the windows; otherwise they are empty and None."""

    code: str
    source: Source
    probability: float | None = None
    votes: tuple[tuple[str, float], ...] = ()


def spoken_language(whisper: Whisper, samples: Samples, speech: Sequence[Span], declared: str | None) -> SpokenLanguage:
    """The language of audio with some `speech`.

    Raises `UsageError` where Whisper doesn't know the declared language, `ModelNotFoundError` where there is no model.
    """
    known = whisper.languages
    if len(known) == 1:
        if declared not in (None, *known):
            _log.warning("this Whisper model knows only %s, not %s", known[0], declared)
        return SpokenLanguage(known[0], "the model's only one")
    if declared is None:
        return _detected(whisper, samples, speech)
    if declared not in known:
        raise UsageError(f"Whisper doesn't know the language `{declared}`", "use a code such as `en` or `cs`")
    return SpokenLanguage(declared, "declared")


def _detected(whisper: Whisper, samples: Samples, speech: Sequence[Span]) -> SpokenLanguage:
    """The majority over three windows of 30 s of speech: the first, the middle and the last; the likelier one at a tie.

    One window would go by a jingle or a guest's greeting.
    """
    last = max(0, total_size(speech) - WINDOW_SAMPLES)
    heard = [
        whisper.language_probabilities(gathered(samples, stretch(speech, start, start + WINDOW_SAMPLES)))
        for start in sorted({0, last // 2, last})
    ]
    votes = tuple(probabilities[0] for probabilities in heard)
    counts = Counter(language for language, _ in votes)
    means = {code: sum(dict(probabilities).get(code, 0.0) for probabilities in heard) / len(heard) for code in counts}
    code = max(counts, key=lambda language: (counts[language], means[language]))
    return SpokenLanguage(code, "detected", means[code], votes)
