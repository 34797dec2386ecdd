import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.errors import SourceError
from librarian_pipeline.evaluation.baseline import Accepted, Baseline, accept, baseline_text, read_baseline
from librarian_pipeline.evaluation.ranks import Measurement, Place, QueryRanks
from librarian_pipeline_tests.evaluation.measurements import MODES, measurement

TEXT = st.text(min_size=1, max_size=20)
RANK = st.one_of(st.none(), st.integers(1, 100))
PLACE = st.one_of(st.builds(Place, st.tuples(RANK), TEXT, TEXT), st.just(Place((None,), None, None)))
QUERY = st.builds(
    QueryRanks,
    TEXT,
    TEXT,
    st.booleans(),
    st.tuples(TEXT),
    st.just(()),
    st.fixed_dictionaries({"dense": PLACE, "hybrid": PLACE}),
)
MEASUREMENT = st.lists(QUERY, max_size=4, unique_by=lambda query: query.query_id).map(
    lambda queries: Measurement("0a1b", "hybrid", {query.query_id: query for query in queries})
)
ACCEPTED = st.builds(Accepted, st.just("2026-11-30"), MEASUREMENT)


@given(st.builds(Baseline, ACCEPTED, st.one_of(st.none(), ACCEPTED)))
def test_what_is_written_is_read_as_it_was(tmp_path_factory, baseline):
    path = tmp_path_factory.getbasetemp() / "baseline.json"
    path.write_text(baseline_text(baseline), encoding="utf-8")
    assert read_baseline(path) == baseline


def test_without_a_file_there_is_no_baseline(tmp_path):
    assert read_baseline(tmp_path / "baseline.json") is None


def test_one_query_that_moved_changes_its_line_and_the_figures_and_nothing_else():
    ranks = {mode: [1, 2, 3, None] for mode in MODES}
    before, moved = measurement(ranks), measurement({**ranks, "hybrid": [1, 7, 3, None]})
    texts = [baseline_text(Baseline(Accepted("2026-11-30", one))).splitlines() for one in (before, moved)]
    differ = [line for line, other in zip(*texts, strict=True) if line != other]
    assert [line.strip()[:8] for line in differ] == ['"hybrid"', '{"id": "']
    assert sum('"id"' in line for line in texts[0]) == 4


def test_accepting_again_keeps_the_last_release_until_there_is_another(tmp_path):
    path = tmp_path / "gold" / "baseline.json"
    first, second, third = (measurement({"hybrid": [rank]}) for rank in (1, 2, 3))
    assert accept(path, first, "2026-01-01").release is None
    accept(path, second, "2026-02-02", release=True)
    accept(path, third, "2026-03-03")
    found = read_baseline(path)
    assert found is not None
    assert (found.baseline.measurement, found.release.measurement) == (third, second)
    assert (found.baseline.accepted_at, found.release.accepted_at) == ("2026-03-03", "2026-02-02")


def remove_a_query(raw):
    del raw["baseline"]["queries"][1]


def change_a_rank(raw):
    raw["baseline"]["queries"][0]["ranks"]["hybrid"] = [2]


def write_a_rank_as_text(raw):
    raw["baseline"]["queries"][0]["ranks"]["hybrid"] = ["1"]


def name_a_query_twice(raw):
    raw["baseline"]["queries"][1]["id"] = "q000"


def forget_a_mode(raw):
    del raw["baseline"]["queries"][1]["ranks"]["dense"]


def add_a_key(raw):
    raw["baseline"]["queries"][1]["note"] = "x"


def be_of_another_format(raw):
    raw["format"] = 2


def have_no_such_mode(raw):
    raw["baseline"]["mode"] = "hybird"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (remove_a_query, "a line was changed or is gone"),
        (change_a_rank, "a line was changed or is gone"),
        (write_a_rank_as_text, "query 'q000', ranks.hybrid.0"),
        (name_a_query_twice, "'q000' is there twice"),
        (forget_a_mode, "query 'q001': ranks and first have different modes"),
        (add_a_key, "query 'q001', note"),
        (be_of_another_format, "format"),
        (have_no_such_mode, "'hybird'"),
    ],
)
def test_a_file_that_was_tampered_with_is_refused_and_told_where(tmp_path, damage, said):
    path = tmp_path / "baseline.json"
    raw = json.loads(baseline_text(Baseline(Accepted("2026-11-30", measurement({"hybrid": [1, 2]})))))
    damage(raw)
    path.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(SourceError) as raised:
        read_baseline(path)
    assert said in raised.value.message
    assert "--accept" in raised.value.fix


def test_a_file_that_is_no_json_is_told_with_the_line(tmp_path):
    path = tmp_path / "baseline.json"
    path.write_text('{\n"format": 1,\n<<<<<<< HEAD\n', encoding="utf-8")
    with pytest.raises(SourceError, match=r"baseline\.json is not valid JSON .*line 3"):
        read_baseline(path)


def test_nothing_is_written_over_a_baseline_that_cant_be_read(tmp_path):
    path = tmp_path / "baseline.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(SourceError):
        accept(path, measurement({"hybrid": [1]}), "2026-11-30")
    assert path.read_text(encoding="utf-8") == "{"


def test_a_measurement_without_queries_can_be_accepted(tmp_path):
    nothing = replace(measurement({"hybrid": [1]}), queries={})
    accept(tmp_path / "baseline.json", nothing, "2026-11-30")
    assert read_baseline(tmp_path / "baseline.json").baseline.measurement == nothing
