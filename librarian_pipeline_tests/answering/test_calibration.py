import pytest
from scipy.stats import binomtest

from librarian_pipeline.answering.calibration import Asked, best_thresholds, calibrate, calibration_rows, shares_of
from librarian_pipeline.answering.evidence import Evidence
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.settings import AnswerSettings


def one(cosine: float | None, *, answerable: bool, split: str = "dev", coverage: float = 0.1, found: bool = True) -> Asked:
    return Asked(split, answerable, found, Evidence(cosine, coverage), answerable or None)


def test_the_thresholds_chosen_tell_apart_what_can_be_told_apart() -> None:
    asked = [
        *(one(cosine, answerable=True) for cosine in (0.88, 0.9)),
        one(0.7, answerable=True, coverage=0.9),
        *(one(cosine, answerable=False, coverage=0.58) for cosine in (0.8, 0.86)),
    ]
    chosen = best_thresholds(asked)
    assert chosen is not None
    assert chosen[0] is not None
    assert 0.86 < chosen[0] <= 0.88
    assert 0.58 < chosen[1] <= 0.9


def test_of_equal_sums_the_one_with_fewer_refusals_is_chosen() -> None:
    # Half of either kind lies on the wrong side, wherever the line is drawn between them.
    asked = [one(0.8, answerable=True), one(0.9, answerable=True), one(0.7, answerable=False), one(0.85, answerable=False)]
    chosen = best_thresholds(asked)
    assert chosen is not None
    assert chosen[0] is not None
    assert 0.7 < chosen[0] <= 0.8


def test_the_modes_of_words_choose_no_cosine() -> None:
    asked = [one(None, answerable=True, coverage=0.9), one(None, answerable=False, coverage=0.4)]
    chosen = best_thresholds(asked)
    assert chosen is not None
    assert chosen[0] is None
    assert 0.4 < chosen[1] <= 0.9


@pytest.mark.parametrize("answerable", [True, False])
def test_one_kind_of_query_alone_chooses_nothing(answerable: bool) -> None:
    assert best_thresholds([one(0.9, answerable=answerable)]) is None


def test_the_splits_are_told_apart_with_intervals() -> None:
    asked = [
        *(one(0.8, answerable=False, split="test") for _ in range(3)),
        one(0.9, answerable=False, split="test"),
        one(0.8, answerable=True, split="test", found=False),
        one(0.9, answerable=True, split="test"),
        one(0.9, answerable=False, split="dev"),
    ]
    shares = {(share.split, share.what): share for share in shares_of(asked, 0.85, 0.6)}
    false_answers = shares["test", "false answers"]
    assert (false_answers.n, false_answers.of) == (1, 4)
    expected = binomtest(1, 4).proportion_ci(0.95, method="wilson")
    assert (false_answers.low, false_answers.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert (shares["test", "false refusals"].n, shares["test", "false refusals"].of) == (1, 2)
    assert (shares["test", "of those found in the first 3"].n, shares["test", "of those found in the first 3"].of) == (0, 1)
    assert (shares["dev", "false answers"].n, shares["dev", "false refusals"].of) == (1, 0)


def test_a_gold_set_without_unanswerable_queries_is_measured_but_chooses_nothing(edition: Edition) -> None:
    measured = calibrate(edition, None, AnswerSettings(min_cosine=0.2))
    assert measured.chosen_cosine is None
    rows = {(split, what): count for split, what, count, *_ in calibration_rows(measured)}
    assert rows["dev", "false refusals"] == "0 of 2"
    assert rows["dev", "answers that quote a judged passage"] == "2 of 2"
    assert rows["test", "false answers"] == "0 of 0"
