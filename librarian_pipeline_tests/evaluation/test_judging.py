from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.archive.timecodes import format_timecode
from librarian_pipeline.evaluation.gold import GoldQuery, gold_table
from librarian_pipeline.evaluation.judging import describe_span, is_hit, judge
from librarian_pipeline.retrieval.modes import Passage


def spoken(start_ms: int, end_ms: int, idx: int = 0, episode: str = "ep01") -> Passage:
    return Passage(f"{episode}:t{idx:03d}", episode, "transcript", start_ms, end_ms, None, "text", "en", 0, 1)


def note(heading: str | None, start_ms: int | None = None, idx: int = 0, episode: str = "ep01") -> Passage:
    return Passage(f"{episode}:n{idx:03d}", episode, "notes", start_ms, None, heading, "text", "en", None, None)


def time_span(start_ms: int, end_ms: int, layer: str = "transcript") -> dict[str, Any]:
    return {"episode_id": "ep01", "layer": layer, "start_ms": start_ms, "end_ms": end_ms, "heading": None}


def heading_span(heading: str) -> dict[str, Any]:
    return {"episode_id": "ep01", "layer": "notes", "start_ms": None, "end_ms": None, "heading": heading}


def gold(*spans: dict[str, Any], query_id: str = "q1", kind: str = "paraphrase") -> GoldQuery:
    base = {"episode": "ep01", "layer": "transcript"}
    relevant = [
        {**base, **span, **{name: format_timecode(span[name]) for name in ("start", "end") if name in span}}
        for span in spans
    ]
    return GoldQuery(id=query_id, query="?", language="en", kind=kind, split="dev", relevant=relevant)


def judged(queries: list[GoldQuery], *passages: Passage):
    return judge(gold_table(queries), {passage.chunk_id: passage for passage in passages})


STRETCHES = st.tuples(st.integers(0, 60), st.integers(1, 60)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(STRETCHES, STRETCHES)
def test_a_passage_hits_where_it_shares_at_least_half_of_the_shorter_one(span, passage):
    shared = len(set(range(*span)) & set(range(*passage)))
    shorter = min(span[1] - span[0], passage[1] - passage[0])
    assert is_hit(time_span(*span), spoken(*passage)) == (shared >= shorter / 2)


@given(STRETCHES, STRETCHES)
def test_the_rule_is_the_same_from_both_sides(one, other):
    assert is_hit(time_span(*one), spoken(*other)) == is_hit(time_span(*other), spoken(*one))


@given(STRETCHES, STRETCHES, st.integers(0, 10**9), st.integers(1, 1000))
def test_the_rule_does_not_depend_on_where_on_the_timeline_nor_on_the_unit(span, passage, shift, factor):
    moved = [tuple(shift + factor * time for time in stretch) for stretch in (span, passage)]
    assert is_hit(time_span(*moved[0]), spoken(*moved[1])) == is_hit(time_span(*span), spoken(*passage))


@given(STRETCHES, st.data())
def test_a_passage_within_a_span_hits_it(span, data):
    start = data.draw(st.integers(span[0], span[1] - 1))
    assert is_hit(time_span(*span), spoken(start, data.draw(st.integers(start + 1, span[1]))))


def test_neighbours_that_only_touch_do_not_hit():
    assert not is_hit(time_span(0, 10), spoken(10, 20))


@pytest.mark.parametrize(("start_ms", "hit"), [(9, False), (10, True), (19, True), (20, False), (None, False)])
def test_a_timed_note_hits_a_span_that_it_starts_in(start_ms, hit):
    assert is_hit(time_span(10, 20, "notes"), note("Any", start_ms)) is hit


def test_a_note_hits_by_its_heading_whatever_its_case_and_unicode_form():
    assert is_hit(heading_span("POMALÉ elektrony"), note("Pomale\u0301 Elektrony"))


def test_a_note_of_another_heading_does_not_hit():
    assert not is_hit(heading_span("Slow electrons"), note("Fast electrons"))


def test_a_note_without_a_heading_does_not_hit():
    assert not is_hit(heading_span("Slow electrons"), note(None))


def test_only_passages_of_the_spans_episode_and_layer_hit():
    passages = [spoken(0, 10_000), spoken(0, 10_000, episode="ep02"), note("Any", 5_000)]
    (query,) = judged([gold({"start": 0, "end": 10_000})], *passages)
    assert query.hits_by_span == (frozenset({"ep01:t000"}),)


def test_all_parts_of_a_section_hit_its_heading():
    (query,) = judged(
        [gold({"layer": "notes", "heading": "Long"})], note("Long", idx=0), note("long", idx=1), note("B", idx=2)
    )
    assert query.hits_by_span == (frozenset({"ep01:n000", "ep01:n001"}),)


def test_a_query_with_several_spans_has_the_hits_of_each_and_any_of_them_is_relevant():
    spans = [{"start": 0, "end": 10_000}, {"start": 20_000, "end": 30_000}]
    (query,) = judged([gold(*spans, kind="synthesis")], spoken(0, 10_000, 0), spoken(20_000, 30_000, 1))
    assert query.hits_by_span == (frozenset({"ep01:t000"}), frozenset({"ep01:t001"}))
    assert query.relevant == {"ep01:t000", "ep01:t001"}


def test_one_passage_may_hit_two_spans():
    spans = [{"start": 0, "end": 10_000}, {"start": 20_000, "end": 30_000}]
    (query,) = judged([gold(*spans)], spoken(0, 60_000))
    assert query.hits_by_span == (frozenset({"ep01:t000"}),) * 2


def test_unanswerable_queries_are_left_out():
    assert judged([gold(kind="unanswerable")], spoken(0, 10_000)) == []


def test_queries_keep_the_order_of_the_gold_set():
    queries = [gold({"start": 0, "end": 1_000}, query_id=name) for name in ("q2", "q1", "q3")]
    assert [query.query_id for query in judged(queries)] == ["q2", "q1", "q3"]


def test_a_span_that_no_passage_hits_is_named_and_left_out_of_what_is_scored():
    spans = [
        {"start": 0, "end": 10_000},
        {"start": 483_000, "end": 521_000},
        {"layer": "notes", "heading": "Slow electrons"},
    ]
    (query,) = judged([gold(*spans)], spoken(0, 10_000))
    assert query.lost_spans == ("ep01 transcript 08:03-08:41", 'ep01 notes "Slow electrons"')
    assert query.hits_by_span == (frozenset({"ep01:t000"}),)


def test_a_passage_without_times_hits_no_span_of_time():
    untimed = Passage("ep01:t000", "ep01", "transcript", None, None, None, "text", "en", 0, 1)
    assert not is_hit(time_span(0, 60_000), untimed)


def test_a_span_of_an_episode_that_is_not_there_is_lost():
    (query,) = judged([gold({"episode": "ep99", "start": 0, "end": 10_000})], spoken(0, 10_000))
    assert query.lost_spans == ("ep99 transcript 00:00-00:10",)


def test_a_span_beyond_the_hour_is_named_by_hours():
    assert describe_span(time_span(4_083_000, 4_100_000)) == "ep01 transcript 1:08:03-1:08:20"
