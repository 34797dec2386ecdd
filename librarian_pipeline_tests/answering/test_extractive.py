from dataclasses import replace

import pytest

from librarian_pipeline.answering.extractive import MOST_SENTENCES, extract
from librarian_pipeline.answering.wording import words_of
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline_tests.answering.conftest import EPISODES


def test_a_sentence_that_neighbouring_passages_share_is_taken_once(edition: Edition) -> None:
    passages = edition.passages_of("one")
    [shared] = [text for text in EPISODES["one"] if sum(text in passage.text for passage in passages) > 1][:1]
    for mode in ("bm25_stem", "dense"):
        quotes = [one.quote for one in extract(edition.searcher, shared, mode, passages)]
        assert quotes.count(shared) == 1
        assert len(set(quotes)) == len(quotes)


def test_by_words_each_sentence_adds_some_that_those_before_it_lack(edition: Edition) -> None:
    query = "the miller's sacks, the salt and the mules, the owl and the mouse"
    proposed = extract(edition.searcher, query, "bm25_stem", list(edition.searcher.passages.values()))
    assert 1 < len(proposed) <= MOST_SENTENCES
    wanted, seen = set(words_of(query)), set[str]()
    for one in proposed:
        added = wanted.intersection(words_of(one.quote)) - seen
        assert added
        seen |= added
    for one in proposed:
        assert one.quote in edition.searcher.passages[one.chunk_id].text


def test_nothing_is_taken_that_holds_no_word_of_the_question(edition: Edition) -> None:
    assert extract(edition.searcher, "quantum chromodynamics", "bm25_stem", edition.passages_of("two")) == []


@pytest.mark.parametrize("mode", ["bm25_stem", "dense"])
@pytest.mark.parametrize(
    "asked", ["Who boiled the salt in iron pans?", "(Who boiled the salt in iron pans?)", "“Salt of iron pans?”"]
)
def test_a_question_that_was_asked_in_the_archive_is_no_answer(edition: Edition, mode: str, asked: str) -> None:
    [passage, *_] = edition.passages_of("two")
    told = "The coast did, over peat, for salt."
    proposed = extract(
        edition.searcher, "Who boiled the salt in iron pans?", mode, [replace(passage, text=f"{asked} {told}")]
    )
    assert [one.quote for one in proposed] == [told]
    assert extract(edition.searcher, "Who boiled the salt in iron pans?", mode, [replace(passage, text=asked)]) == []
