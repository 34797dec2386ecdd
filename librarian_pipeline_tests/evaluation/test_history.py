import os
import signal
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from librarian_pipeline.evaluation import history
from librarian_pipeline.evaluation.history import compact, read_history, record_measurement, unexplained_changes
from librarian_pipeline.evaluation.history_plot import MOST_SHOWN, history_markdown, history_svg
from librarian_pipeline.storage import duckdb_mirror
from librarian_pipeline.storage.schemas import EVAL_HISTORY, EVAL_SCORES
from librarian_pipeline.storage.warehouse import Warehouse

START = datetime(2026, 1, 30, 3, tzinfo=UTC)
MODES = ("bm25_raw", "dense")


def scores(value: float = 0.5) -> pa.Table:
    rows = [
        {"mode": mode, "metric": metric, "slice": part, "value": value, "ci_low": 0.1, "ci_high": 0.9, "n_queries": 9}
        for mode in MODES
        for metric in ("R@1", "MRR")
        for part in ("all", "cs")
    ]
    return pa.Table.from_pylist(rows, schema=EVAL_SCORES)


def measure(warehouse: Warehouse, n: int = 1, *, after: int = 0, value: float = 0.5, of: str = "a") -> list[str]:
    """`n` measurements, a day apart from the day `after` on."""
    made = []
    for day in range(after, after + n):
        now = START + timedelta(days=day)
        made.append(
            record_measurement(
                warehouse,
                scores(value),
                recipe={"of": of},
                inputs={},
                data_version="v1",
                trigger="nightly",
                now=now,
            )
        )
    return [str(one) for one in made]


def ids(warehouse: Warehouse) -> list[str]:
    return list(dict.fromkeys(read_history(warehouse).column("measurement").to_pylist()))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse")


def test_each_measurement_is_a_row_for_each_figure_with_when_and_of_what(warehouse):
    measure(warehouse, of="a")
    rows = read_history(warehouse, slices=["all", "cs"])
    assert rows.schema == EVAL_HISTORY
    assert rows.num_rows == scores().num_rows
    row = rows.to_pylist()[0]
    assert (row["measured_at"], row["trigger"], row["data_version"]) == ("2026-01-30T03:00:00.000000Z", "nightly", "v1")
    assert row["measurement"].endswith(row["fingerprint"])


def test_equal_figures_are_recorded_again(warehouse):
    assert ids(warehouse) == []
    made = measure(warehouse, 3)
    assert ids(warehouse) == made


def test_only_what_is_asked_for_is_read(warehouse):
    measure(warehouse)
    rows = read_history(warehouse, metrics=["MRR"]).to_pylist()
    assert {(row["metric"], row["slice"]) for row in rows} == {("MRR", "all")}


def test_nothing_measured_is_no_measurement(warehouse):
    made = record_measurement(warehouse, EVAL_SCORES.empty_table(), recipe={}, inputs={}, data_version="v", trigger="run")
    assert made is None
    assert ids(warehouse) == []


def test_many_measurements_are_put_together_by_month_and_none_is_lost(warehouse):
    made = measure(warehouse, 40)
    before = read_history(warehouse, slices=["all", "cs"]).drop(["batch"])
    compact(warehouse)
    assert warehouse.partitions("eval_history") == ["2026-01", "2026-02", "2026-03"]
    assert read_history(warehouse, slices=["all", "cs"]).drop(["batch"]).equals(before)
    made += measure(warehouse, 2, after=40)
    compact(warehouse)
    assert ids(warehouse) == made


def test_files_are_put_together_before_they_are_too_many(warehouse, monkeypatch):
    monkeypatch.setattr(history, "MOST_SINGLE", 5)
    made = measure(warehouse, 30)
    assert len(warehouse.partitions("eval_history")) <= 5 + 2
    assert ids(warehouse) == made


def test_a_measurement_in_two_files_is_read_once_and_tidied_up(warehouse, monkeypatch):
    made = measure(warehouse, 3)
    with monkeypatch.context() as killed:
        killed.setattr(Warehouse, "drop", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            compact(warehouse)
    assert read_history(warehouse).num_rows == 3 * len(MODES) * 2
    compact(warehouse)
    assert ids(warehouse) == made
    assert read_history(warehouse).num_rows == 3 * len(MODES) * 2
    assert all("T" not in name for name in warehouse.partitions("eval_history"))


def test_a_damaged_file_takes_no_other_with_it(warehouse):
    made = measure(warehouse, 3)
    warehouse.path("eval_history", made[1]).write_bytes(b"PAR1 junk")
    assert ids(warehouse) == [made[0], made[2]]
    compact(warehouse)
    assert ids(warehouse) == [made[0], made[2]]


def test_a_reader_goes_on_while_files_are_put_together(warehouse, monkeypatch):
    made = measure(warehouse, 3)
    names = history._months_first(warehouse)
    listed = iter([names])
    original = history._months_first
    monkeypatch.setattr(history, "_months_first", lambda w: next(listed, None) or original(w))
    compact(warehouse)
    assert ids(warehouse) == made


def test_killed_writers_lose_no_measurement_that_was_told_of(tmp_path):
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from librarian_pipeline.evaluation import history
        from librarian_pipeline.storage.warehouse import Warehouse
        from librarian_pipeline_tests.evaluation.test_history import scores
        history.MOST_SINGLE = 3
        warehouse = Warehouse(Path(sys.argv[1]))
        while True:
            told = {"recipe": {}, "inputs": {}, "data_version": "v", "trigger": "t"}
            print(history.record_measurement(warehouse, scores(), **told), flush=True)
    """)
    told: list[str] = []
    for round_ in range(6):
        process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        told += [process.stdout.readline().strip() for _ in range(4 + 3 * round_)]
        os.kill(process.pid, signal.SIGKILL)
        told += [line.strip() for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        process.wait()
    found = ids(Warehouse(tmp_path))
    assert set(told) <= set(found)
    assert len(found) == len(set(found))


def test_the_history_is_a_table_in_duckdb_whatever_files_it_is_in(warehouse):
    def mirrored() -> list[str]:
        import duckdb

        duckdb_mirror.refresh(warehouse)
        with duckdb.connect(warehouse.root / "librarian.duckdb", read_only=True) as connection:
            return [name for (name,) in connection.execute("SELECT measurement FROM eval_history ORDER BY 1").fetchall()]

    made = measure(warehouse, 3)
    each = scores().num_rows
    assert mirrored() == sorted(made * each)
    compact(warehouse)
    made += measure(warehouse, 1, after=3)
    assert mirrored() == sorted(made * each)


def test_another_figure_of_the_same_is_told_and_one_of_something_else_is_not(warehouse):
    measure(warehouse, 1, value=0.5, of="a")
    measure(warehouse, 1, after=1, value=0.7, of="b")
    assert unexplained_changes(read_history(warehouse)) == []
    measure(warehouse, 1, after=2, value=0.5, of="a")
    assert unexplained_changes(read_history(warehouse)) == []
    measure(warehouse, 1, after=3, value=0.25, of="a")
    lines = unexplained_changes(read_history(warehouse))
    assert len(lines) == len(MODES) * 2
    assert "dense MRR: 0.5000 at 2026-02-01T03:00:00.000000Z, now 0.2500" in lines


def test_the_plot_tells_in_words_what_it_shows(warehouse):
    measure(warehouse, 1, value=0.25, of="a")
    measure(warehouse, 1, after=1, value=0.75, of="b")
    drawn = ET.fromstring(history_svg(read_history(warehouse), "MRR"))
    name = "{http://www.w3.org/2000/svg}"
    assert drawn.findtext(f"{name}title") == "MRR of each mode, 2 measurements from 2026-01-30 to 2026-01-31"
    assert "dense: now 0.75, lowest 0.25, highest 0.75" in str(drawn.findtext(f"{name}desc"))
    assert len(drawn.findall(f"{name}polyline")) == len(MODES)
    assert len([line for line in drawn.findall(f"{name}line") if line.get("class") == "change"]) == 1


def test_the_plot_shows_the_last_measurements_only(warehouse):
    measure(warehouse, MOST_SHOWN + 5)
    [line, _] = ET.fromstring(history_svg(read_history(warehouse), "MRR")).findall("{http://www.w3.org/2000/svg}polyline")
    assert len(str(line.get("points")).split()) == MOST_SHOWN


def test_a_plot_of_nothing_is_nothing_and_says_so(warehouse):
    assert history_svg(read_history(warehouse), "MRR") == ""
    assert "nothing" in history_markdown(read_history(warehouse), "MRR")
