"""The one verifier of what any producer claims: a claim is shown only if its passage says it."""

from collections.abc import Iterable, Mapping

from librarian_pipeline.answering.answer import VERIFIED, Answer, Claim, Proposed
from librarian_pipeline.answering.places import cite_word
from librarian_pipeline.answering.wording import find, sentences, tokens, words_of
from librarian_pipeline.retrieval.modes import Passage
from librarian_pipeline.serving.edition import Edition

LEAST_WORDS = 3
MOST_CLAIMS = 8


class Verifier:
    """Of the claims about the passages that were retrieved for one query."""

    def __init__(self, edition: Edition, retrieved: Iterable[Passage]) -> None:
        self._edition = edition
        self._retrieved: Mapping[str, Passage] = {passage.chunk_id: passage for passage in retrieved}

    def answer(self, proposed: Iterable[Proposed], note: str | None = None) -> Answer:
        """Out of the claims that pass, each once; a refusal where none does."""
        claims: dict[tuple[str, str], Claim] = {}
        failed: list[str] = []
        for one in proposed:
            checked = self.verify(one)
            if isinstance(checked, str):
                failed.append(checked)
            elif len(claims) < MOST_CLAIMS:
                claims.setdefault((checked.citation.text, checked.quote), checked)
        if not claims:
            told = f"no claim passed the check ({failed[0]})" if failed else "no passage that was found answers this"
            return self.refuse(told, note, len(failed))
        return Answer("answered", None, tuple(claims.values()), self._edition.id, self._edition.warning, note, len(failed))

    def refuse(self, why: str, note: str | None = None, dropped: int = 0) -> Answer:
        return Answer("refused", why, (), self._edition.id, self._edition.warning, note, dropped)

    def verify(self, proposed: Proposed) -> Claim | str:
        """The claim with the wording of its passage and the citation of its first word; or what is wrong with it."""
        passage = self._retrieved.get(proposed.chunk_id)
        if passage is None:
            return "it names a passage that was not found for this query"
        wanted, said = words_of(proposed.quote), tokens(passage.text)
        if len(wanted) < LEAST_WORDS:
            return f"its quote has fewer than {LEAST_WORDS} words"
        begins = find(wanted, [token.word for token in said])
        if begins is None:
            return "its quote is not in the passage that it names"
        start, end = said[begins].start, said[begins + len(wanted) - 1].end
        touched = [(first, last) for first, last in sentences(passage.text) if first < end and last > start]
        return Claim(
            text=passage.text[min(start, touched[0][0]) : max(end, touched[-1][1])],
            chunk_id=passage.chunk_id,
            quote=passage.text[start:end],
            citation=cite_word(self._edition.snapshot.tables, passage, begins),
            seal=VERIFIED,
        )
