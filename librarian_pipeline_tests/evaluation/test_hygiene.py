from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.checks import Severity
from librarian_pipeline.evaluation.hygiene import (
    DUPLICATES,
    HYGIENE_CHECKS,
    LABELS,
    OF_QUERIES_ALONE,
    PARAPHRASES,
    SPLITS,
    UNANSWERABLE,
    HygieneCheck,
    examine,
    measure_overlaps,
)
from librarian_pipeline.retrieval.modes import Passage
from librarian_pipeline.settings import GoldSettings
from librarian_pipeline.storage.schemas import GOLD_SET

SETTINGS = GoldSettings()


def query(query_id: str, text: str, episode: str | None = "one", **others: Any) -> dict[str, Any]:
    """A row of the gold set; its span is the first ten seconds of an episode, or there is none."""
    kind = "paraphrase" if episode else "unanswerable"
    row = {"query_id": query_id, "query": text, "language": "en", "kind": kind, "split": "dev", "critical": False}
    span = {"episode_id": episode, "layer": "transcript" if episode else None}
    return {
        **row,
        **span,
        "start_ms": 0 if episode else None,
        "end_ms": 10_000 if episode else None,
        "heading": None,
        **others,
    }


def gold(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=GOLD_SET)


def passages(*texts: str, language: str = "en") -> dict[str, Passage]:
    """One of an episode each: `one`, `two`, ..."""
    names = ("one", "two", "three", "four", "five", "six")
    return {
        f"{name}:t000": Passage(f"{name}:t000", name, "transcript", 0, 10_000, None, text, language, 0, 0)
        for name, text in zip(names, texts, strict=False)
    }


TEXTS = passages(
    "the mill was built of grey stone",
    "an owl hears a mouse under the snow",
    "the ferry leaves at the high tide",
    "a bell was cast in the pit",
    "the bees were dancing on the comb",
)


def check(name: str, *rows: dict[str, Any], settings: GoldSettings = SETTINGS) -> HygieneCheck:
    (found,) = [found for found in examine(gold(*rows), TEXTS).judged_by(settings) if found.name == name]
    return found


def test_each_check_that_is_told_of_is_made():
    assert {found.name for found in examine(gold(query("q1", "x")), TEXTS).judged_by(SETTINGS)} == HYGIENE_CHECKS.keys()


def test_without_passages_only_the_queries_are_looked_at():
    assert {found.name for found in examine(gold(query("q1", "x")), None).judged_by(SETTINGS)} == set(OF_QUERIES_ALONE)


def test_a_span_that_no_passage_meets_is_an_error_that_names_query_and_span():
    found = check(LABELS, query("q1", "x"), query("q2", "x", "nine"))
    assert (found.passed, found.severity) == (False, Severity.ERROR)
    [line] = found.offenders
    assert "'q2'" in line
    assert "nine transcript 00:00-00:10" in line


@pytest.mark.parametrize("other", ["WHERE is the mill", "Where  is the mill?!", "where is the mil\N{LATIN SMALL LETTER L}"])
def test_queries_equal_but_for_case_signs_and_spacing_are_an_error(other):
    found = check(DUPLICATES, query("q1", "Where is the mill?"), query("q2", other), query("q3", "Where is the owl?"))
    assert found.severity is Severity.ERROR
    [line] = found.offenders
    assert line.startswith("q1 = q2")


def test_equal_words_in_two_languages_are_one_search_and_so_a_duplicate():
    assert not check(DUPLICATES, query("q1", "Kelvin"), query("q2", "kelvin", language="cs")).passed


def test_queries_of_the_same_lemmas_are_a_warning():
    found = check(DUPLICATES, query("q1", "Which mill was built?"), query("q2", "which mills were built"))
    assert found.severity is Severity.WARN
    assert [line.startswith("q1 ~ q2") for line in found.offenders] == [True]


@pytest.mark.parametrize("other", ["When was the mill built?", "???", "Who built the mill?"])
def test_other_questions_are_no_duplicates(other):
    assert check(DUPLICATES, query("q1", "Why was the mill built?"), query("q2", other)).passed


def test_a_query_with_several_spans_is_no_duplicate_of_itself():
    assert check(DUPLICATES, query("q1", "The mill"), query("q1", "The mill", "two")).passed


def test_an_episode_that_both_splits_are_judged_on_is_named_with_the_fewer_queries():
    rows = [query("q1", "a"), query("q2", "b"), query("q3", "c", split="test"), query("q4", "d", "two", split="test")]
    assert check(SPLITS, *rows).offenders == ("one: 2 dev, 1 test (q3)",)


def test_a_paraphrase_in_the_words_of_its_passage_is_named_with_the_passage_and_the_words():
    found = check(PARAPHRASES, query("q1", "grey stones of the mill"), query("q2", "what grinds the corn?"))
    [line] = found.offenders
    assert line.startswith("q1 with one:t000: ")
    assert {"mill", "stone"} <= set(line.partition("(")[2].rstrip(")").split(", "))


def test_words_that_are_everywhere_weigh_nothing():
    everywhere = passages(*(f"the {word} of the people" for word in ("mill", "owl", "ferry", "bell")))
    [overlap] = measure_overlaps(gold(query("q1", "the people of the water wheel")), everywhere)
    assert overlap.share == 0


def test_only_paraphrases_have_to_avoid_words():
    assert check(PARAPHRASES, query("q1", "grey stones of the mill", kind="keyword")).passed


def test_thresholds_are_settings():
    rows = [query("q1", "grey stones of the mill"), query("q2", "an owl hears a mouse", None)]
    lax = GoldSettings(max_paraphrase_overlap=1, max_unanswerable_overlap=1)
    assert not check(PARAPHRASES, *rows).passed
    assert not check(UNANSWERABLE, *rows).passed
    assert check(PARAPHRASES, *rows, settings=lax).passed
    assert check(UNANSWERABLE, *rows, settings=lax).passed


def test_an_unanswerable_query_that_a_passage_holds_is_named_wherever_that_is():
    found = check(
        UNANSWERABLE, query("q1", "Does an owl hear mice in the snow?", None), query("q2", "Who invented radar?", None)
    )
    [line] = found.offenders
    assert line.startswith("q1 with two:t000: ")


def test_a_query_is_lemmatised_in_the_language_of_the_passage():
    czech = passages("mlýn byl postaven z kamene", "sova slyší myš", language="cs")
    [overlap] = measure_overlaps(gold(query("q1", "mlýny z kamenů", language="en")), czech)
    assert {"mlýn", "kámen"} <= set(overlap.shared)


VOCABULARY = ("mill", "owl", "ferry", "bell", "comb", "snow", "the", "a", "of", "tide")
WORDS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=8).map(" ".join)


@given(st.lists(WORDS, min_size=1, max_size=5), WORDS)
def test_a_passage_of_just_the_querys_words_shares_all_of_its_weight(texts, asked):
    [best] = measure_overlaps(gold(query("q1", asked, None)), passages(*texts, asked))
    everywhere = set.intersection(*(set(text.split()) for text in [*texts, asked]))
    assert best.share == pytest.approx(0.0 if set(asked.split()) <= everywhere else 1.0)


@given(st.lists(WORDS, min_size=1, max_size=5), WORDS)
def test_the_order_of_passages_and_queries_changes_nothing(texts, asked):
    held = passages(*texts)
    rows = [query("q1", asked), query("q2", "the owl", None)]
    backwards = dict(reversed(held.items()))
    assert measure_overlaps(gold(*rows), held) == measure_overlaps(gold(*reversed(rows)), backwards)
