"""The producer that needs nothing but the archive: sentences of the passages, word for word."""

from collections.abc import Iterator, Sequence

from librarian_pipeline.answering.answer import Proposed
from librarian_pipeline.answering.evidence import sees_meaning
from librarian_pipeline.answering.verifier import LEAST_WORDS
from librarian_pipeline.answering.wording import sentences, words_of
from librarian_pipeline.retrieval.modes import Passage, Searcher

MOST_SENTENCES = 3
CLOSING = "\"'”’»)]"
"""What may follow the mark that ends a sentence."""


def extract(searcher: Searcher, query: str, mode: str | None, retrieved: Sequence[Passage]) -> list[Proposed]:
    """The sentence of each of the first passages that is nearest to the query: at most three, in the passages' order.

    By cosine where the mode asks the embedding model, else by the idf of the query's terms that none before it holds.
    Neighbouring passages share segments: no sentence is taken twice. Nor are questions, which are near to questions, and say
    nothing.
    """
    taken: list[Proposed] = []
    covered: set[str] = set()
    for passage in retrieved:
        if len(taken) == MOST_SENTENCES:
            break
        known = {(one.chunk_id.partition(":")[0], tuple(words_of(one.quote))) for one in taken}
        quotes = [quote for quote in _quotes(passage) if (passage.episode_id, tuple(words_of(quote))) not in known]
        if quotes:
            scores = _scores(searcher, query, mode, passage, quotes, covered)
            best = max(range(len(quotes)), key=lambda number: (scores[number], -number))
            if scores[best] > 0:
                taken.append(Proposed(passage.chunk_id, quotes[best]))
                covered |= set(searcher.normalizer.terms(quotes[best], passage.language))
    return taken


def _quotes(passage: Passage) -> Iterator[str]:
    for start, end in sentences(passage.text):
        sentence = passage.text[start:end]
        if len(words_of(sentence)) >= LEAST_WORDS and not sentence.rstrip(CLOSING).endswith("?"):
            yield sentence


def _scores(
    searcher: Searcher, query: str, mode: str | None, passage: Passage, quotes: Sequence[str], covered: set[str]
) -> list[float]:
    if sees_meaning(searcher, mode):
        return searcher.nearness_of(query, quotes)
    wanted = set(searcher.normalizer.terms(query, passage.language)) - covered
    held = [wanted.intersection(searcher.normalizer.terms(quote, passage.language)) for quote in quotes]
    return [sum(searcher.stem_index.idf(term) for term in sorted(terms)) for terms in held]
