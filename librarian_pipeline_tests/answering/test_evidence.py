"""What a refusal tells of the evidence."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from librarian_pipeline.answering import evidence
from librarian_pipeline.answering.evidence import Evidence, evidence_of, is_enough, shortfall
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.settings import EmbeddingSettings

LEAST = (0.855, 0.6)


@given(st.floats(0, 1), st.floats(0, 1))
@example(0.85499, 0.59999)
def test_figures_below_a_threshold_never_read_like_it(cosine: float, coverage: float) -> None:
    why = shortfall(Evidence(cosine, coverage), *LEAST)
    assert (why is None) == is_enough(Evidence(cosine, coverage), *LEAST)
    if why is not None:
        held, needed, near, near_enough = (float(figure) for figure in re.findall(r"\d+(?:\.\d+)?", why))
        assert (needed, near_enough) == (60, 0.855)
        assert held < needed
        assert near < near_enough


def test_a_mode_of_words_is_told_nothing_of_meaning() -> None:
    why = shortfall(Evidence(None, 0.25), *LEAST)
    assert why is not None
    assert "question's words (25 % of their weight, 60 % are needed)" in why
    assert "meaning" not in why


def test_the_cosine_is_that_of_the_values_that_can_be_compared(monkeypatch: pytest.MonkeyPatch, edition: Edition) -> None:
    question = "who counted the sacks"
    by_all = evidence_of(edition, question, "dense", []).cosine
    monkeypatch.setattr(evidence, "COMPARABLE_VALUES", {"char-ngram": 100})
    by_some = evidence_of(edition, question, "dense", []).cosine
    assert (by_all, by_some) == (
        edition.searcher.nearest_cosine(question),
        edition.searcher.nearest_cosine(question, 100),
    )
    assert by_all != by_some


def test_the_default_model_is_calibrated() -> None:
    assert EmbeddingSettings().model in evidence.CALIBRATED_COSINES
