import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.errors import SourceError
from librarian_pipeline.evaluation.gold import gold_table, read_gold_set, same_heading

SPAN = {"episode": "ep03", "layer": "transcript", "start": "08:03", "end": "08:41"}
NOTE = {"episode": "ep11", "layer": "notes", "heading": "Slow electrons"}
QUERY = {
    "id": "q017",
    "query": "Why?",
    "language": "cs",
    "kind": "paraphrase",
    "split": "test",
    "critical": False,
    "relevant": [SPAN],
}


def written(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "gold_set.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def query(**changes: object) -> dict[str, object]:
    return {key: value for key, value in {**QUERY, **changes}.items() if value != "left out"}


def span(**changes: object) -> dict[str, object]:
    return query(relevant=[{key: value for key, value in {**SPAN, **changes}.items() if value != "left out"}])


def test_a_query_is_read_with_its_spans_in_milliseconds(tmp_path):
    (found,) = read_gold_set(written(tmp_path, [query(kind="synthesis", relevant=[SPAN, NOTE])]))
    transcript, notes = found.relevant
    assert (found.id, found.language, found.kind, found.split) == ("q017", "cs", "synthesis", "test")
    assert (transcript.episode, transcript.start, transcript.end) == ("ep03", 483_000, 521_000)
    assert (notes.layer, notes.heading, notes.start) == ("notes", "Slow electrons", None)


def test_no_file_is_no_queries(tmp_path):
    assert read_gold_set(tmp_path / "gold_set.json") == []


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    assert len(read_gold_set(written(tmp_path, "\ufeff" + json.dumps([QUERY])))) == 1


def test_critical_may_be_left_out(tmp_path):
    assert read_gold_set(written(tmp_path, [query(critical="left out")]))[0].critical is False


def test_a_timed_note_may_be_judged_by_its_time(tmp_path):
    (found,) = read_gold_set(written(tmp_path, [span(layer="notes")]))
    assert (found.relevant[0].start, found.relevant[0].end) == (483_000, 521_000)


WRONG = {
    "no list": ({}, "the file", "valid list"),
    "an item that is no object": ([3], "query number 1", "valid"),
    "no id": ([query(id="left out")], "query number 1, id", "required"),
    "an id with a space": ([query(id="q 17")], "query 'q 17', id", "match"),
    "no query": ([query(query="left out")], "query 'q017', query", "required"),
    "an empty query": ([query(query="")], "query 'q017', query", "match"),
    "a blank query": ([query(query=" \t")], "query 'q017', query", "match"),
    "an unknown kind": ([query(kind="easy")], "query 'q017', kind", "'paraphrase', 'keyword'"),
    "an unknown split": ([query(split="train")], "query 'q017', split", "'dev' or 'test'"),
    "an unknown field": ([query(langauge="cs")], "query 'q017', langauge", "not permitted"),
    "no spans": ([query(relevant=[])], "query 'q017'", "every other kind has some"),
    "an unanswerable query with spans": ([query(kind="unanswerable")], "query 'q017'", "has no relevant spans"),
    "an unknown layer": ([span(layer="audio")], "query 'q017', relevant.0.layer", "'transcript' or 'notes'"),
    "no episode": ([span(episode="left out")], "query 'q017', relevant.0.episode", "required"),
    "a time that is none": ([span(start="8 min")], "query 'q017', relevant.0.start", "write it as 08:03"),
    "a time that is a number": ([span(start=483)], "query 'q017', relevant.0.start", "write times as text"),
    "a transcript span without an end": ([span(end="left out")], "query 'q017', relevant.0", "needs start and end"),
    "a span that ends before it starts": ([span(end="08:02")], "query 'q017', relevant.0", "start must be before end"),
    "a span of no length": ([span(end="08:03")], "query 'q017', relevant.0", "start must be before end"),
    "a heading in a transcript": ([span(heading="Slow")], "query 'q017', relevant.0", "no headings"),
    "a notes span that is nowhere": (
        [span(layer="notes", start="left out", end="left out")],
        "query 'q017', relevant.0",
        "needs a heading, or start and end",
    ),
    "a notes span without an end": ([span(layer="notes", end="left out")], "query 'q017', relevant.0", "start and end"),
    "an id that is used twice": ([QUERY, QUERY], "query id 'q017' is used twice", "id of its own"),
    "the second of two": ([query(id="q016"), query(split="x")], "query 'q017', split", "'dev' or 'test'"),
}


@pytest.mark.parametrize(("content", "where", "what"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_one_line_that_names_the_file_the_query_and_the_field(tmp_path, content, where, what):
    with pytest.raises(SourceError) as caught:
        read_gold_set(written(tmp_path, content))
    line = str(caught.value)
    assert line.startswith(f"gold_set.json: {where}")
    assert what in line
    assert "\n" not in line


@pytest.mark.parametrize("content", ["", "[", '[{"id": "q1"},]', "nonsense"])
def test_a_file_that_is_no_json_is_one_line_that_names_it(tmp_path, content):
    with pytest.raises(SourceError, match=r"^gold_set\.json is not valid JSON") as caught:
        read_gold_set(written(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_utf8_is_one_line_that_names_it(tmp_path):
    (tmp_path / "gold_set.json").write_bytes(b'["\xe9"]')
    with pytest.raises(SourceError, match=r"^gold_set\.json is not valid JSON"):
        read_gold_set(tmp_path / "gold_set.json")


def test_the_table_has_a_row_for_each_span_and_one_for_an_unanswerable_query(tmp_path):
    queries = [query(id="q1", relevant=[SPAN, NOTE]), query(id="q2", kind="unanswerable", relevant=[])]
    rows = gold_table(read_gold_set(written(tmp_path, queries))).to_pylist()
    found = [(row["query_id"], row["episode_id"], row["start_ms"], row["heading"]) for row in rows]
    assert found == [("q1", "ep03", 483_000, None), ("q1", "ep11", None, "Slow electrons"), ("q2", None, None, None)]


HEADINGS = st.text(st.sampled_from("aBčČẞß é\u0301\u030c\t"), max_size=8)


@given(HEADINGS)
def test_headings_are_the_same_whatever_their_unicode_form(heading):
    assert same_heading(unicodedata.normalize("NFD", heading), unicodedata.normalize("NFC", heading))


@given(HEADINGS, HEADINGS)
def test_it_does_not_matter_which_heading_is_asked_first(one, other):
    assert same_heading(one, other) == same_heading(other, one)


@pytest.mark.parametrize("other", ["slow ELECTRONS", "  Slow \t electrons "])
def test_headings_are_the_same_whatever_their_case_and_spacing(other):
    assert same_heading("Slow electrons", other)


@pytest.mark.parametrize("other", ["Slow electron", "Slowelectrons", "", None])
def test_other_headings_are_not_the_same(other):
    assert not same_heading("Slow electrons", other)


def test_no_heading_is_the_same_as_none():
    assert not same_heading(None, None)
