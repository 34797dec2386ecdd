"""From a question to an answer: retrieve, look at the evidence, let a producer propose, verify."""

from librarian_pipeline.answering.answer import Answer
from librarian_pipeline.answering.endpoint import EndpointError, propose
from librarian_pipeline.answering.evidence import evidence_of, min_cosine, shortfall
from librarian_pipeline.answering.extractive import extract
from librarian_pipeline.answering.verifier import Verifier
from librarian_pipeline.errors import UsageError
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.settings import AnswerSettings
from librarian_pipeline.text.tokens import words

PASSAGES = 5
"""Retrieved for a question."""


def ask(edition: Edition, query: str, mode: str | None, settings: AnswerSettings) -> Answer:
    """An answer out of one edition. Raises like `Edition.search` for a blank query or an unknown mode.

    Raises `UsageError` for an endpoint without a model, too.
    """
    if settings.base_url is not None and settings.model is None:
        raise UsageError("[answers] base_url is set, but no model to ask it for", "set [answers] model, too")
    retrieved = [cited.passage for cited in edition.search(query, mode, PASSAGES)]
    verifier = Verifier(edition, retrieved)
    if not words(query):
        return verifier.refuse("the question has no words")
    evidence = evidence_of(edition, query, mode, retrieved)
    if why := shortfall(evidence, min_cosine(edition, settings), settings.min_coverage):
        return verifier.refuse(why)
    note = None
    if settings.base_url is not None:
        try:
            return verifier.answer(propose(query, retrieved, settings))
        except EndpointError as error:
            note = f"{error}; sentences of the passages are shown instead"
    return verifier.answer(extract(edition.searcher, query, mode, retrieved), note)
