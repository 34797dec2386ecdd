"""Does the archive hold enough for an answer? By raw evidence: the scores of a fusion tell of ranks alone.

Two things speak for an answer, and one of them is enough: the nearest passage's cosine with the query, and the share of the
query's weight in idf that one of the retrieved passages holds. Cosines of different models can't be compared: for a model
that nobody calibrated, words alone decide, until `[answers] min_cosine` is set.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from librarian_pipeline.chunking.passages import indexed_text
from librarian_pipeline.retrieval.embedders import joint
from librarian_pipeline.retrieval.modes import Passage, Searcher
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.settings import AnswerSettings

CALIBRATED_COSINES = {"multilingual-e5-small": 0.855, "joint-e5-minilm": 0.855}
"""By embedding model, as `librarian ask --calibrate` chose them on the dev queries of the sample archive."""
COMPARABLE_VALUES = {"joint-e5-minilm": joint.MULTILINGUAL_VALUES}
"""By embedding model: the first values of its vectors, where not the cosines of all values can be held against one bound."""
WORDS_ONLY = ("bm25_raw", "bm25_stem")
"""Modes that load no embedding model."""


@dataclass(frozen=True)
class Evidence:
    """`cosine` of the nearest passage of all, None where no model is asked; `coverage` from 0 to 1."""

    cosine: float | None
    coverage: float


def evidence_of(edition: Edition, query: str, mode: str | None, retrieved: Sequence[Passage]) -> Evidence:
    searcher = edition.searcher
    first = COMPARABLE_VALUES.get(_model_of(edition) or "")
    return Evidence(
        cosine=searcher.nearest_cosine(query, first) if sees_meaning(searcher, mode) else None,
        coverage=max((coverage(searcher, query, passage) for passage in retrieved), default=0.0),
    )


def sees_meaning(searcher: Searcher, mode: str | None) -> bool:
    """Whether a mode, or the default one, asks the embedding model."""
    return (mode or searcher.default_mode) not in WORDS_ONLY


def coverage(searcher: Searcher, query: str, passage: Passage) -> float:
    """The share of the query's weight in idf that the passage holds; a term that is nowhere weighs as much as the rarest."""
    asked = set(searcher.normalizer.terms(query, passage.language))
    held = asked.intersection(searcher.normalizer.terms(indexed_text(passage.heading, passage.text), passage.language))
    unseen = math.log(2 * len(searcher.passages) + 1)
    weights = {term: searcher.stem_index.idf(term) or unseen for term in sorted(asked)}
    total = sum(weights.values())
    return sum(weight for term, weight in weights.items() if term in held) / total if total > 0 else 0.0


def min_cosine(edition: Edition, settings: AnswerSettings) -> float | None:
    """What is set, else what was calibrated for the model of the edition's vectors; None for another model."""
    if settings.min_cosine is not None:
        return settings.min_cosine
    return CALIBRATED_COSINES.get(_model_of(edition) or "")


def _model_of(edition: Edition) -> str | None:
    """The embedding model of the edition's vectors; None where it has none."""
    models: list[str] = edition.snapshot.tables.read("vector_index_model").column("model").to_pylist()
    return models[0] if models else None


def is_enough(evidence: Evidence, least_cosine: float | None, least_coverage: float) -> bool:
    near = least_cosine is not None and evidence.cosine is not None and evidence.cosine >= least_cosine
    return near or evidence.coverage >= least_coverage


def shortfall(evidence: Evidence, least_cosine: float | None, least_coverage: float) -> str | None:
    """Why the evidence is not enough; None where it is."""
    if is_enough(evidence, least_cosine, least_coverage):
        return None
    held = f"{math.floor(100 * evidence.coverage)} % of their weight, {100 * least_coverage:g} % are needed"
    told = f"the archive has too little on this: no passage has enough of the question's words ({held})"
    if evidence.cosine is None:
        return told
    if least_cosine is None:
        return f"{told}, and no [answers] min_cosine is set for its embedding model"
    # Rounded down: what is below a threshold must not read like it.
    near = f"cosine {math.floor(1_000 * evidence.cosine) / 1_000:.3f}, {least_cosine:g} is needed"
    return f"{told}, and none is near enough in meaning ({near})"
