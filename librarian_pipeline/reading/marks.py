"""The words of a passage that a query asks for, and the part of the passage that holds the weightiest of them."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace

from librarian_pipeline.retrieval.modes import Passage, Searcher
from librarian_pipeline.text.tokens import word_spans

LEAST_SHARE = 0.3
"""Of the idf of a query's weightiest term: lighter ones, words such as `the`, would fill every passage with marks."""
CUT = "…"


@dataclass(frozen=True)
class Mark:
    """Characters from `start` up to `end` stand for `term`, whose idf is `weight`."""

    start: int
    end: int
    term: str
    weight: float


@dataclass(frozen=True)
class MarkedText:
    """A text, in NFC, and the marks in it, in order."""

    text: str
    marks: tuple[Mark, ...] = ()

    @property
    def spans(self) -> list[tuple[int, int]]:
        return [(mark.start, mark.end) for mark in self.marks]

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """The whole text in parts, each with whether it is marked."""
        at = 0
        for start, end in self.spans:
            if start > at:
                yield self.text[at:start], False
            yield self.text[start:end], True
            at = end
        if at < len(self.text):
            yield self.text[at:], False


def marked(passage: Passage, query: str, searcher: Searcher) -> MarkedText:
    """The passage's text with the words whose terms, in the passage's own language, are among the query's."""
    text = unicodedata.normalize("NFC", passage.text)
    index, terms_of = searcher.stem_index, searcher.normalizer.terms
    weights = {term: index.idf(term) for term in terms_of(query, passage.language)}
    least = LEAST_SHARE * max(weights.values(), default=0.0)
    marks: list[Mark] = []
    for start, end in word_spans(text):
        [term] = terms_of(text[start:end], passage.language)
        if weights.get(term, 0.0) >= least and weights.get(term, 0.0) > 0:
            marks.append(Mark(start, end, term, weights[term]))
    return MarkedText(text, tuple(marks))


def excerpt(whole: MarkedText, length: int) -> MarkedText:
    """At most `length` characters, and dots where something is cut off: the part whose different terms weigh most.

    Cut between words where there are any, the marks in the middle; the beginning where nothing is marked.
    """
    if len(whole.text) <= length:
        return whole
    start = _best_start(whole, length)
    end = min(len(whole.text), start + length)
    start, end = _between_words(whole.text, start, end)
    before, after = (f"{CUT} " if start > 0 else ""), (f" {CUT}" if end < len(whole.text) else "")
    shift = len(before) - start
    kept = tuple(
        replace(mark, start=mark.start + shift, end=mark.end + shift)
        for mark in whole.marks
        if mark.start >= start and mark.end <= end
    )
    return MarkedText(f"{before}{whole.text[start:end]}{after}", kept)


def _best_start(whole: MarkedText, length: int) -> int:
    best_weight, best = 0.0, (0, 0)
    for first in whole.marks:
        within = [mark for mark in whole.marks if first.start <= mark.start and mark.end <= first.start + length]
        weight = sum({mark.term: mark.weight for mark in within}.values())
        if weight > best_weight:
            best_weight, best = weight, (first.start, max(mark.end for mark in within))
    start, end = best
    if best_weight == 0:
        return 0
    spare = length - (end - start)
    return max(0, min(start - spare // 2, len(whole.text) - length))


def _between_words(text: str, start: int, end: int) -> tuple[int, int]:
    """The same part without the halves of words at its ends."""
    if start > 0 and not text[start - 1].isspace():
        cut = next((at for at in range(start, end) if text[at].isspace()), start)
        start = cut if cut - start < (end - start) // 4 else start
    if end < len(text) and not text[end].isspace():
        cut = next((at for at in range(end, start, -1) if text[at - 1].isspace()), end)
        end = cut if end - cut < (end - start) // 4 else end
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
