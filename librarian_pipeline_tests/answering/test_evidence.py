"""What a refusal tells of the evidence."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from librarian_pipeline.answering.evidence import Evidence, is_enough, shortfall

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
