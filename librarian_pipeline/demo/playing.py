"""Plays a demonstration on the published index, and holds what it finds against what was promised."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from librarian_pipeline.answering.answer import Answer
from librarian_pipeline.answering.asking import ask
from librarian_pipeline.demo.script import Demo
from librarian_pipeline.evaluation.gold import GoldQuery, gold_table
from librarian_pipeline.evaluation.judging import JudgedQuery, judge
from librarian_pipeline.reading.marks import excerpt, marked
from librarian_pipeline.retrieval.modes import Passage
from librarian_pipeline.serving.edition import CitedHit, Edition
from librarian_pipeline.settings import AnswerSettings
from librarian_pipeline.text.lemmas import Normalizer
from librarian_pipeline.text.tokens import raw_tokens

CONTENT_SHARE = 0.05
"""A lemma that more of the passages of its language hold is no content word: such as `the`, `who`, `have`."""
LEMMAS = "simplemma"
EXCERPT_CHARACTERS = 200


@dataclass(frozen=True)
class Promise:
    """What was promised, in words, and whether it was kept."""

    line: str
    kept: bool


@dataclass(frozen=True)
class Showing:
    """A demonstration as it was played. `hits` are the first results, as far as the promise goes, each with its excerpt."""

    demo: Demo
    mode: str
    hits: Sequence[tuple[CitedHit, str]]
    answer: Answer | None
    promises: Sequence[Promise]

    @property
    def kept(self) -> bool:
        return all(promise.kept for promise in self.promises)


def play(demo: Demo, edition: Edition) -> Showing:
    """Raises `UsageError` for an unknown mode."""
    judged = _judged(demo, edition)
    mode = demo.mode or edition.searcher.default_mode
    hits = edition.search(demo.query, mode, demo.within)
    answering = [edition.searcher.passages[chunk_id] for chunk_id in sorted(judged.relevant)]
    promises = [
        *_spans_met(judged, hits, demo.within),
        *(_said(words, [hit.passage for hit in hits]) for words in demo.says),
        *(_unwritten(words, edition.searcher.passages.values()) for words in demo.never_in_notes),
        *([_no_shared_word(demo, answering, edition)] if demo.shares_no_word else []),
        *(_missed(other, demo, judged, edition) for other in demo.not_found_by),
    ]
    shown = [(hit, excerpt(marked(hit.passage, demo.query, edition.searcher), EXCERPT_CHARACTERS).text) for hit in hits]
    if not demo.claims_from:
        return Showing(demo, mode, shown, None, promises)
    answer = ask(edition, demo.query, mode, AnswerSettings())
    return Showing(demo, mode, shown, answer, [*promises, _claimed(answer, demo.claims_from, judged, edition)])


def _judged(demo: Demo, edition: Edition) -> JudgedQuery:
    query = GoldQuery(
        id="demo", query=demo.query, language=demo.language, kind="paraphrase", split="dev", relevant=demo.relevant
    )
    [judged] = judge(gold_table([query]), edition.searcher.passages)
    return judged


def _spans_met(judged: JudgedQuery, hits: Sequence[CitedHit], within: int) -> Iterable[Promise]:
    for span in judged.lost_spans:
        yield Promise(f"{span} is in the archive", kept=False)
    for passages in judged.hits_by_span:
        rank = next((hit.hit.rank for hit in hits if hit.passage.chunk_id in passages), None)
        named = " or ".join(sorted(passages))
        found = f"at rank {rank}" if rank else f"not among the first {within}"
        yield Promise(f"{named} found {found}", kept=rank is not None)


def _said(words: str, passages: Iterable[Passage]) -> Promise:
    kept = any(_holds(passage.text, words) for passage in passages)
    return Promise(f"what was found says “{words}”", kept)


def _unwritten(words: str, passages: Iterable[Passage]) -> Promise:
    holders = sorted(
        passage.chunk_id
        for passage in passages
        if passage.layer == "notes" and _holds(f"{passage.heading or ''} {passage.text}", words)
    )
    return Promise(f"no note holds “{words}”" if not holders else f"{holders[0]} holds “{words}”", kept=not holders)


def _holds(text: str, words: str) -> bool:
    """Whether the words stand in the text one after the other, whatever their case and the signs between them."""
    return f" {' '.join(raw_tokens(words))} " in f" {' '.join(raw_tokens(text))} "


def _no_shared_word(demo: Demo, answering: Iterable[Passage], edition: Edition) -> Promise:
    normalizer, passages = Normalizer(LEMMAS), edition.searcher.passages.values()
    shared: set[str] = set()
    for passage in answering:
        asked = set(normalizer.terms(demo.query, passage.language))
        common = asked.intersection(normalizer.terms(passage.text, passage.language))
        shared |= {lemma for lemma in common if _is_content(lemma, passage.language, passages, normalizer)}
    told = f"the question shares {', '.join(sorted(shared))}" if shared else "the question shares no content word with it"
    return Promise(told, kept=not shared)


def _is_content(lemma: str, language: str, passages: Iterable[Passage], normalizer: Normalizer) -> bool:
    of_language = [passage for passage in passages if passage.language == language]
    holders = sum(lemma in normalizer.terms(passage.text, language) for passage in of_language)
    return holders <= CONTENT_SHARE * len(of_language)


def _claimed(answer: Answer, wanted: int, judged: JudgedQuery, edition: Edition) -> Promise:
    """Every claim has passed the verifier, so what is left to ask is whether the quotes are from where the answer is."""
    right = [edition.searcher.passages[claim.chunk_id] for claim in answer.claims if claim.chunk_id in judged.relevant]
    episodes = sorted({passage.episode_id for passage in right})
    told = (
        answer.why or f"{len(answer.claims)} claims, each cited; those from judged passages: {', '.join(episodes) or 'none'}"
    )
    return Promise(told, kept=len(episodes) >= wanted)


def _missed(mode: str, demo: Demo, judged: JudgedQuery, edition: Edition) -> Promise:
    hits = edition.search(demo.query, mode, demo.within)
    rank = next((hit.hit.rank for hit in hits if hit.passage.chunk_id in judged.relevant), None)
    return Promise(f"{mode} finds it {f'at rank {rank}' if rank else 'not'} within {demo.within}", kept=rank is None)
