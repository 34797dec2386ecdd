from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.evaluation.jump_in import JUMP_METRICS, MEDIAN, WITHIN, jump_in_rows, jump_ins
from librarian_pipeline.retrieval.modes import MODES, Passage
from librarian_pipeline.storage.schemas import JUMP_INS, RANKINGS

OPTIONS = {"resamples": 100, "confidence": 0.95}


@dataclass
class CiterOf:
    """Cites each passage at the time it is given."""

    times: dict[str, int | None]
    asked: list[tuple[str, str]] = field(default_factory=list)

    def cite(self, query: str, passage: Passage) -> SimpleNamespace:
        self.asked.append((query, passage.chunk_id))
        return SimpleNamespace(start_ms=self.times[passage.chunk_id])


def passages(*ids: str) -> dict[str, Passage]:
    return {id: Passage(id, id.partition(":")[0], "transcript", 0, 60_000, None, "", "en", 0, 1) for id in ids}


def rankings(*found: tuple[str, str, list[str]]) -> pa.Table:
    rows = [
        {"mode": mode, "query_id": query_id, "rank": rank, "chunk_id": name, "score": 1.0}
        for mode, query_id, names in found
        for rank, name in enumerate(names, start=1)
    ]
    return pa.Table.from_pylist(rows, schema=RANKINGS)


def of_mode(table: pa.Table, mode: str) -> list[dict[str, object]]:
    return [row for row in table.to_pylist() if row["mode"] == mode]


@pytest.mark.parametrize(
    ("chunk_id", "cited_ms", "judged_start_ms", "offset_ms"),
    [
        ("ep01:t000", 13_000, 10_000, 3_000),
        ("ep01:t000", 9_000, 10_000, -1_000),
        ("ep01:t000", 80_000, 90_000, -10_000),
        ("ep01:t000", None, None, None),
        ("ep02:t000", 10_000, None, None),
    ],
    ids=["late", "early", "the nearer of two spans", "cited without a time", "another episode"],
)
def test_the_time_cited_for_the_first_result_is_set_against_the_judged_start(
    judged, chunk_id, cited_ms, judged_start_ms, offset_ms
):
    query = judged("q1", {"x"}, {"y"}, starts=(("ep01", 10_000), ("ep01", 90_000), ("ep03", 11_000)))
    ranked = rankings(("dense", "q1", [chunk_id, "ep01:t009"]))
    table = jump_ins(ranked, [query], passages(chunk_id, "ep01:t009"), CiterOf({chunk_id: cited_ms, "ep01:t009": 10_000}))
    assert table.schema == JUMP_INS
    assert of_mode(table, "dense") == [
        {
            "mode": "dense",
            "query_id": "q1",
            "chunk_id": chunk_id,
            "cited_ms": cited_ms,
            "judged_start_ms": judged_start_ms,
            "offset_ms": offset_ms,
        }
    ]


def test_every_mode_has_a_row_for_each_query_with_transcript_spans_whatever_it_finds(judged):
    queries = [judged("q1", {"x"}, starts=(("ep01", 0),)), judged("q2", {"x"})]
    table = jump_ins(rankings(), queries, {}, CiterOf({}))
    assert [(row["mode"], row["query_id"], row["chunk_id"]) for row in table.to_pylist()] == [
        (mode, "q1", None) for mode in MODES
    ]


def test_what_several_modes_put_first_is_cited_once(judged):
    citer = CiterOf({"ep01:t000": 0})
    ranked = rankings(*((mode, "q1", ["ep01:t000"]) for mode in MODES))
    jump_ins(ranked, [judged("q1", {"x"}, starts=(("ep01", 0),))], passages("ep01:t000"), citer)
    assert citer.asked == [("What of q1?", "ep01:t000")]


OFFSETS = st.lists(st.none() | st.integers(-200_000, 200_000), min_size=1, max_size=30)


@given(OFFSETS)
def test_the_shares_are_of_all_queries_and_the_median_of_those_with_an_offset(judged, offsets):
    queries = [judged(f"q{n}", {"x"}) for n in range(len(offsets))]
    rows = [{"mode": "dense", "query_id": f"q{n}", "offset_ms": offset} for n, offset in enumerate(offsets)]
    found = jump_in_rows(pa.Table.from_pylist(rows, schema=JUMP_INS), queries, **OPTIONS)
    overall = {row["metric"]: row for row in found if row["slice"] == "all"}
    known = [abs(offset) for offset in offsets if offset is not None]
    for metric, limit_ms in zip(WITHIN, (30_000, 60_000, 120_000), strict=True):
        assert overall[metric]["value"] == pytest.approx(sum(distance <= limit_ms for distance in known) / len(offsets))
        assert overall[metric]["n_queries"] == len(offsets)
    if known:
        assert (overall[MEDIAN]["value"], overall[MEDIAN]["n_queries"]) == (np.median(known), len(known))
        assert min(known) <= overall[MEDIAN]["ci_low"] <= overall[MEDIAN]["ci_high"] <= max(known)
    else:
        assert MEDIAN not in overall


def test_a_slice_without_queries_that_tell_has_no_figure(judged):
    queries = [judged("q1", {"x"}), judged("q2", {"x"}, kind="keyword")]
    table = pa.Table.from_pylist([{"mode": "dense", "query_id": "q1", "offset_ms": 0}], schema=JUMP_INS)
    found = jump_in_rows(table, queries, **OPTIONS)
    assert {row["slice"] for row in found} == {"all", "en", "paraphrase", "dev", "en/dev", "paraphrase/dev"}
    assert [row["metric"] for row in found if row["slice"] == "all"] == list(JUMP_METRICS)
