import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.answering.answer import Answer, Claim, Proposed
from librarian_pipeline.answering.verifier import LEAST_WORDS, Verifier
from librarian_pipeline.answering.wording import sentences, words_of
from librarian_pipeline.retrieval.citations import Citation
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline_tests.answering.conftest import EPISODES, STEP_S


@pytest.fixture(scope="module")
def verifier(edition: Edition) -> Verifier:
    return Verifier(edition, edition.searcher.passages.values())


def verified(verifier: Verifier, chunk_id: str, quote: str) -> Claim:
    claim = verifier.verify(Proposed(chunk_id, quote))
    assert isinstance(claim, Claim), claim
    return claim


@given(data=st.data())
def test_any_three_words_in_a_row_are_cited_at_the_sentence_in_which_they_begin(
    verifier: Verifier, data: st.DataObject
) -> None:
    episode = data.draw(st.sampled_from(sorted(EPISODES)))
    said = [(word, number) for number, text in enumerate(EPISODES[episode]) for word in words_of(text)]
    first = data.draw(st.integers(0, len(said) - LEAST_WORDS))
    last = data.draw(st.integers(first + LEAST_WORDS, min(len(said), first + 12)))
    quote = " ".join(word for word, _ in said[first:last])
    passed = [
        claim
        for passage in verifier._edition.passages_of(episode)
        if isinstance(claim := verifier.verify(Proposed(passage.chunk_id, quote)), Claim)
    ]
    for claim in passed:
        assert claim.citation.episode_id == episode
        assert claim.citation.start_ms == said[first][1] * STEP_S * 1000
        assert words_of(claim.quote) == words_of(quote)
        assert claim.quote in claim.text
        assert claim.text in verifier._edition.searcher.passages[claim.chunk_id].text
    # No passage of this archive ends within a sentence.
    assert passed or said[first][1] != said[last - 1][1]


@given(number=st.integers(0, 8), other=st.text(alphabet="qxzw", min_size=1, max_size=5))
def test_a_quote_with_one_word_altered_is_dropped(verifier: Verifier, number: int, other: str) -> None:
    words = words_of(EPISODES["one"][0])
    words[number % len(words)] = other
    assert verifier.verify(Proposed("one:t000", " ".join(words))) == "its quote is not in the passage that it names"


@pytest.mark.parametrize(
    "quote",
    [
        "OBEŠEL ÚLY DŘÍV",
        unicodedata.normalize("NFD", "obešel úly dřív"),
        "„obešel … úly – dřív!“",
    ],
)
def test_case_signs_and_unicode_form_make_no_difference_and_the_passage_s_wording_is_shown(
    verifier: Verifier, quote: str
) -> None:
    assert verified(verifier, "tri:t000", quote).quote == "obešel úly dřív"


def test_diacritics_tell_words_apart(verifier: Verifier) -> None:
    assert isinstance(verifier.verify(Proposed("tri:t000", "Řada města zakázala")), str)
    assert verified(verifier, "tri:t000", "Rada města zakázala")


@pytest.mark.parametrize(
    ("chunk_id", "quote", "why"),
    [
        ("one:t000", "The miller", "fewer than 3 words"),
        ("one:t000", "", "fewer than 3 words"),
        ("one:t000", "... !!! ???", "fewer than 3 words"),
        ("one:t000", "miller his sacks", "not in the passage"),
        ("one:t000", "sacks his counted", "not in the passage"),
        ("one:t000", "boiled down in iron pans", "not in the passage"),
        ("one:t999", "The miller counted", "was not found"),
        ("../../etc/passwd", "root x 0", "was not found"),
    ],
)
def test_what_its_passage_does_not_say_is_dropped(verifier: Verifier, chunk_id: str, quote: str, why: str) -> None:
    told = verifier.verify(Proposed(chunk_id, quote))
    assert isinstance(told, str)
    assert why in told


def test_a_passage_that_was_not_retrieved_is_no_source(edition: Edition) -> None:
    only = Verifier(edition, [edition.searcher.passages["two:t000"]])
    answer = only.answer(
        [Proposed("one:t000", "The miller counted his sacks"), Proposed("two:t000", "in iron pans over peat")]
    )
    assert ([claim.chunk_id for claim in answer.claims], answer.dropped) == (["two:t000"], 1)


def test_when_no_claim_is_left_the_answer_is_refused(edition: Edition, verifier: Verifier) -> None:
    answer = verifier.answer([Proposed("one:t000", "The miller sold his sacks")])
    assert (answer.status, answer.claims, answer.dropped, answer.snapshot) == ("refused", (), 1, edition.id)
    assert answer.why == "no claim passed the check (its quote is not in the passage that it names)"


def test_the_warning_of_the_edition_goes_along(edition: Edition) -> None:
    damaged = edition.with_warning("another one is damaged")
    assert Verifier(damaged, []).answer([]).warning == "another one is damaged"


def test_nothing_but_the_verifier_makes_claims(verifier: Verifier) -> None:
    with pytest.raises(TypeError, match="the verifier alone"):
        Claim("a", "b", "c", Citation("d", "e", None), object())
    with pytest.raises((TypeError, ValueError)):
        replace(verified(verifier, "one:t000", "The miller counted"), quote="The miller sold")
    with pytest.raises(ValueError, match="a refusal a reason"):
        Answer("answered", None, (), "snapshot")


@given(text=st.text())
def test_sentences_hold_all_that_is_not_space(text: str) -> None:
    shown = "".join(text[start:end] for start, end in sentences(text))
    assert "".join(shown.split()) == "".join(text.split())
