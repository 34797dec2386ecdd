"""From a gold query to the ranks of the passages that answer it, and to what stood before them."""

import json
from typing import Any

import pytest

from librarian_pipeline.derivation.derive import derive
from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.judging import judge
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.retrieval.modes import MODES, passages_of
from librarian_pipeline.storage.schemas import CHUNKS
from librarian_pipeline.tracing.query import QueryTrace
from librarian_pipeline.tracing.trace import Trace, trace_gold_query
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.tracing.conftest import HEARD, Silent

BM25 = ("bm25_raw", "bm25_stem")


@pytest.fixture(scope="module")
def traces(archive: Workspace) -> dict[str, Trace]:
    """Of every query of the gold set."""
    ids = dict.fromkeys(archive.warehouse.read("gold_set").column("query_id").to_pylist())
    return {query_id: trace_gold_query(archive, query_id) for query_id in ids}


@pytest.fixture(scope="module")
def rankings(archive: Workspace) -> dict[tuple[str, str, str], dict[str, Any]]:
    rows = archive.warehouse.read("rankings").to_pylist()
    return {(row["query_id"], row["mode"], row["chunk_id"]): row for row in rows}


def query_of(trace: Trace) -> QueryTrace:
    assert trace.query is not None
    return trace.query


def test_the_ranks_and_scores_of_every_query_are_those_that_were_measured(
    traces: dict[str, Trace], rankings: dict[tuple[str, str, str], dict[str, Any]]
) -> None:
    compared = 0
    for query_id, trace in traces.items():
        query = query_of(trace)
        judged = [passage for span in query.spans for passage in span.passages]
        first = [passage for passage in query.first.values() if passage is not None]
        for passage in [*judged, *first]:
            for mode in MODES:
                row = rankings.get((query_id, mode, passage.chunk_id), {"rank": None, "score": None})
                assert (passage.ranks[mode], passage.scores[mode]) == (row["rank"], row["score"])
                compared += row["rank"] is not None
    assert compared > 300


def test_first_is_what_each_mode_put_first(
    traces: dict[str, Trace], rankings: dict[tuple[str, str, str], dict[str, Any]]
) -> None:
    expected = {(query_id, mode): chunk_id for (query_id, mode, chunk_id), row in rankings.items() if row["rank"] == 1}
    told = {
        (query_id, mode): passage.chunk_id
        for query_id, trace in traces.items()
        for mode, passage in query_of(trace).first.items()
        if passage is not None
    }
    assert told == expected


def test_the_passages_of_every_span_are_those_that_count_as_hits(archive: Workspace, traces: dict[str, Trace]) -> None:
    episodes = list(archive.archive.discover().episodes)
    passages = passages_of(archive.warehouse.read_all("chunks", episodes, CHUNKS))
    judged = judge(archive.warehouse.read("gold_set"), passages)
    assert len(judged) > 90
    for query in judged:
        spans = query_of(traces[query.query_id]).spans
        hits = [frozenset(passage.chunk_id for passage in span.passages) for span in spans]
        assert [found for found in hits if found] == list(query.hits_by_span)
        assert [span.span for span in spans if not span.passages] == list(query.lost_spans)


def test_of_each_span_the_best_ranked_passage_is_traced(traces: dict[str, Trace]) -> None:
    for trace in traces.values():
        best = []
        for span in query_of(trace).spans:
            ranks = [min((rank for rank in one.ranks.values() if rank), default=10**6) for one in span.passages]
            assert ranks == sorted(ranks)
            best += [one.chunk_id for one in span.passages[:1]]
        assert [passage.chunk_id for passage in trace.passages] == list(dict.fromkeys(best))


@pytest.mark.parametrize("mode", BM25)
def test_what_the_terms_that_a_passage_holds_add_up_to_is_its_score(
    mode: str, traces: dict[str, Trace], rankings: dict[tuple[str, str, str], dict[str, Any]]
) -> None:
    compared = 0
    for query_id, trace in traces.items():
        for held in (one for one in query_of(trace).held if one.mode == mode):
            weights = [term.weight for term in held.terms if term.weight is not None]
            row = rankings.get((query_id, mode, held.chunk_id))
            assert (row is None) == (not weights)
            if row is not None:
                assert sum(weights) == pytest.approx(row["score"], rel=1e-9)
                compared += 1
    assert compared > 50


@pytest.mark.parametrize("mode", BM25)
def test_the_answer_is_compared_with_what_stands_first(mode: str, traces: dict[str, Trace]) -> None:
    for trace in traces.values():
        query = query_of(trace)
        compared = {held.chunk_id for held in query.held if held.mode == mode}
        first = query.first[mode]
        assert compared == {*query.judged, *([first.chunk_id] if first else [])}


def test_the_scores_and_all_that_they_came_from_are_named_with_their_versions(
    archive: Workspace, traces: dict[str, Trace]
) -> None:
    [trace] = [trace for trace in traces.values() if {one.episode_id for one in trace.passages} == {HEARD}][:1]
    versions = {output.item: output.version for output in trace.outputs}
    assert list(versions)[-2:] == ["gold_set", "eval_scores"]
    assert {f"audio[{HEARD}]", f"chunks[{HEARD}]", "bm25_stem_index", "vector_index"} <= versions.keys()
    record = archive.warehouse.committed("eval_scores")
    assert record is not None
    assert versions["eval_scores"] == record.version


def test_an_unanswerable_query_says_that_nothing_answers_it(traces: dict[str, Trace]) -> None:
    trace = traces["q091"]
    query = query_of(trace)
    assert (query.kind, query.spans, trace.passages) == ("unanswerable", (), ())
    assert query.remarks == ("no passage answers it: unanswerable queries are not ranked",)


def test_a_span_that_no_passage_meets_is_told_as_lost(traces: dict[str, Trace]) -> None:
    query = query_of(traces["q001"])  # of an episode that isn't in this archive
    assert [span.passages for span in query.spans] == [()]
    assert query.first["hybrid"] is not None


def test_an_unknown_query_names_the_nearest(archive: Workspace) -> None:
    with pytest.raises(UsageError, match=r"no query 'q01': did you mean q001 or q010 or q011\?"):
        trace_gold_query(archive, "q01")


def test_before_anything_is_measured_the_error_says_what_to_run(archive_copy: Workspace) -> None:
    archive_copy.warehouse.path("eval_scores").unlink()
    with pytest.raises(UsageError, match="nothing has been measured yet: run `librarian run --home"):
        trace_gold_query(archive_copy, "q017")


def test_an_empty_gold_set_says_where_to_put_queries(archive_copy: Workspace) -> None:
    record = archive_copy.warehouse.committed("gold_set")
    assert record is not None
    empty = archive_copy.warehouse.read("gold_set").slice(0, 0)
    archive_copy.warehouse.write("gold_set", None, empty, recipe=record.recipe, inputs=record.inputs)
    with pytest.raises(UsageError, match=r"it is empty: put some in gold/gold_set\.json"):
        trace_gold_query(archive_copy, "q017")


def test_ranks_that_were_measured_before_something_changed_say_so(archive_copy: Workspace) -> None:
    gold = json.loads(archive_copy.archive.gold_path.read_text())
    gold.append({**gold[0], "id": "new"})
    archive_copy.archive.gold_path.write_text(json.dumps(gold))
    workspace = Workspace.open(archive_copy.home)
    derive(workspace, Item("gold_set"), Silent())
    trace = trace_gold_query(workspace, "new")
    query = query_of(trace)
    assert not query.is_measured
    assert query.remarks == (
        "no mode has a result for it: it was not measured yet, or no passage was there to be found",
        "ranks are those of the last measurement: since then gold_set changed",
    )
    assert not trace.is_current
