import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.evaluation.readme_table import NO_TABLE, differences

FIGURES = {("dense", "R@1"): 0.414, ("dense", "MRR"): 0.58, ("hybrid", "R@1"): 0.2649, ("hybrid", "MRR"): 0.436}
CONSOLE = """
$ make run
Retrieval mode   R@1   MRR
dense           0.41  0.58
hybrid          0.26  0.44

search: 0.99
"""
MARKDOWN = """
| mode | what it does |
| --- | --- |
| `dense` | cosine, 0.5 or more |

| Retrieval mode | R@1 | MRR |
| --- | ---: | ---: |
| `dense` | 0.41 | 0.580 |
| **hybrid** (default) | 0.26 ± 0.05 | 0.44 |
"""


@pytest.mark.parametrize("text", [CONSOLE, MARKDOWN])
def test_a_table_with_the_measured_figures_differs_by_nothing(text):
    assert differences(text, FIGURES) == {}


@pytest.mark.parametrize("text", [CONSOLE, MARKDOWN])
def test_a_figure_that_is_another_one_is_named_with_the_measured_one(text):
    assert differences(text, {**FIGURES, ("hybrid", "R@1"): 0.31}) == {("hybrid", "R@1"): "hybrid R@1 0.26, measured 0.31"}


def test_figures_are_compared_to_the_precision_that_is_shown():
    assert differences(MARKDOWN, {**FIGURES, ("dense", "MRR"): 0.5804}) == {}
    assert differences(MARKDOWN, {**FIGURES, ("dense", "MRR"): 0.5806}) != {}


def test_a_mode_without_a_row_and_a_row_of_no_mode_are_named():
    assert differences(CONSOLE, {**FIGURES, ("hybrid_cc", "R@1"): 0.5}) == {("hybrid_cc", ""): "hybrid_cc has no row"}
    without = {key: value for key, value in FIGURES.items() if key[0] != "dense"}
    assert "dense R@1 0.41, measured not at all" in differences(CONSOLE, without).values()


def test_a_text_without_a_table_has_none():
    assert differences("# A podcast\n\ndense 0.41\n", FIGURES) is NO_TABLE


@given(st.text())
def test_any_text_is_read(text):
    differences(text, FIGURES)
