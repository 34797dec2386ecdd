import pytest

from librarian_pipeline.answering.answer import Answer
from librarian_pipeline.answering.asking import ask
from librarian_pipeline.errors import UsageError
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.settings import AnswerSettings
from librarian_pipeline_tests.answering.conftest import EPISODES

NEAR = AnswerSettings(min_cosine=0.2)
WORDS = AnswerSettings(min_coverage=0.4)


def asked(edition: Edition, query: str, settings: AnswerSettings = NEAR, mode: str | None = None) -> Answer:
    return ask(edition, query, mode, settings)


@pytest.mark.parametrize("mode", ["bm25_raw", "bm25_stem", "dense", "hybrid", "hybrid_cc", None])
def test_the_sentence_that_answers_is_quoted_and_cited_in_every_mode(edition: Edition, mode: str | None) -> None:
    answer = asked(edition, "boiled salt iron pans", AnswerSettings(min_cosine=0.2, min_coverage=0.4), mode)
    assert answer.status == "answered"
    first = answer.claims[0]
    assert (first.text, first.citation.text) == (EPISODES["two"][0], "Ep. two @ 00:00")
    assert len(answer.claims) <= 3
    assert answer.snapshot == edition.id


def test_a_question_that_spans_episodes_gets_claims_from_each(edition: Edition) -> None:
    question = "What was done with salt on the mountains and on the coast, and who wound the clock?"
    answer = asked(edition, question, AnswerSettings(min_coverage=0.2), "bm25_stem")
    assert len({claim.citation.episode_id for claim in answer.claims}) > 1
    assert all(claim.citation.episode_id == claim.chunk_id.partition(":")[0] for claim in answer.claims)


def test_a_czech_question_is_answered_with_a_czech_quote(edition: Edition) -> None:
    first = asked(edition, "Kdo opravil kostelní hodiny?").claims[0]
    assert (first.text, first.citation.text) == (EPISODES["tri"][2], "Ep. tri @ 00:16")


@pytest.mark.parametrize("query", ["Kolik stojí jízdenka do Vídně?", "quantum chromodynamics", "zzz qqq www"])
@pytest.mark.parametrize("mode", ["bm25_stem", "hybrid_cc"])
def test_what_the_archive_has_nothing_on_is_refused_without_a_citation(edition: Edition, query: str, mode: str) -> None:
    answer = asked(edition, query, AnswerSettings(min_cosine=0.9), mode)
    assert (answer.status, answer.claims) == ("refused", ())
    assert answer.why is not None
    assert "the archive has too little on this" in answer.why


def test_words_alone_decide_for_a_model_that_nobody_calibrated(edition: Edition) -> None:
    refused = asked(edition, "how was brine turned into crystals", AnswerSettings())
    assert refused.why is not None
    assert "no [answers] min_cosine is set" in refused.why
    assert asked(edition, "boiled salt iron pans", AnswerSettings()).status == "answered"


def test_a_model_is_asked_for_nothing_by_the_modes_of_words(edition: Edition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edition.searcher, "_model", lambda: pytest.fail("a model was loaded"))
    assert asked(edition, "boiled salt iron pans", WORDS, "bm25_stem").status == "answered"


def test_orders_in_a_transcript_are_quoted_text_and_change_nothing(edition: Edition) -> None:
    answer = asked(edition, "Where was the cheese cellar dug, under the old brewery?")
    assert any("The cheese cellar was dug" in claim.text for claim in answer.claims)
    for claim in answer.claims:
        assert claim.text in edition.searcher.passages[claim.chunk_id].text
    assert asked(edition, "Who counted his sacks?").claims[0].text == EPISODES["one"][0]


def test_a_question_of_signs_alone_is_refused_and_a_blank_one_is_wrong_use(edition: Edition) -> None:
    assert asked(edition, "???").why == "the question has no words"
    with pytest.raises(UsageError, match="blank"):
        asked(edition, " \n")
    with pytest.raises(UsageError, match="there is no mode"):
        asked(edition, "salt", mode="best")
