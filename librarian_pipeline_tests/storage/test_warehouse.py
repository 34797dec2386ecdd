import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from librarian_pipeline.storage.content import content_hash
from librarian_pipeline.storage.schemas import CHUNKS
from librarian_pipeline.storage.warehouse import Failure, Warehouse

RECIPE = {"code": 1, "model": "é"}
INPUTS = {"chunks[ep01]": "abc"}
FAILURE = Failure("recipe", {"file": "abc"}, "ep01.md: line 3 is wrong", "mend it")
OLD, NEW = pa.table({"n": [1, 2]}), pa.table({"n": [3]})
OLD_BESIDE, NEW_BESIDE = pa.table({"rank": [1]}), pa.table({"rank": [9, 8]})
ODD_PARTITIONS = ["all", "a.b", "x-1", "ep.parquet", "ep.failed", "ep.failed.json", "A_1", "0"]

NUMBERS = pa.schema([("n", pa.int64())])


def put(warehouse: Warehouse, table: pa.Table, beside: pa.Table | None = None, asset: str = "eval", partition=None):
    extra = {} if beside is None else {"rankings": beside}
    return warehouse.write(asset, partition, table, recipe=RECIPE, inputs=INPUTS, beside=extra)


def temporary_files(warehouse: Warehouse) -> list[str]:
    return sorted(path.name for path in warehouse.root.rglob("*.tmp"))


def test_what_was_written_is_read_back(warehouse):
    put(warehouse, OLD)
    assert warehouse.read("eval").to_pylist() == OLD.to_pylist()


def test_the_record_tells_what_the_output_was_made_from(warehouse):
    written = put(warehouse, OLD, OLD_BESIDE, partition="ep01")
    found = warehouse.provenance("eval", "ep01")
    assert found == written
    assert (found.asset, found.partition, found.recipe, found.inputs) == ("eval", "ep01", RECIPE, INPUTS)
    assert (found.content_hash, found.rows) == (content_hash(OLD), 2)
    assert found.beside == {"rankings": content_hash(OLD_BESIDE)}


def test_equal_content_is_equal_bytes(warehouse):
    put(warehouse, OLD)
    first = warehouse.path("eval").read_bytes()
    put(warehouse, OLD)
    assert warehouse.path("eval").read_bytes() == first


def test_what_was_never_written_has_no_record(warehouse):
    assert warehouse.provenance("eval") is None
    assert warehouse.committed("eval") is None
    with pytest.raises(FileNotFoundError):
        warehouse.read("eval")


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "footer", "not ours", "other record", "half a record"])
def test_a_file_that_is_not_whole_or_not_ours_has_no_record(warehouse, damage):
    put(warehouse, OLD)
    path = warehouse.path("eval")
    data = path.read_bytes()
    if damage in {"not ours", "other record", "half a record"}:
        record = {"not ours": {}, "other record": {"librarian": '{"asset": "eval"}'}, "half a record": {"librarian": "{"}}
        pq.write_table(OLD.replace_schema_metadata(record[damage]), path)
    else:
        footer_at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        footer = data[:footer_at] + b"\xff" * 8 + data[footer_at + 8 :]
        path.write_bytes({"truncated": data[:-7], "empty": b"", "text": b"hello", "footer": footer}[damage])
    assert warehouse.provenance("eval") is None


def test_many_partitions_are_read_in_the_order_asked_for(warehouse):
    for name, n in [("ep01", 1), ("ep02", 2), ("ep03", 3)]:
        put(warehouse, pa.table({"n": [n]}), asset="chunks", partition=name)
    rows = warehouse.read_all("chunks", ["ep03", "never", "ep01"], NUMBERS)
    assert rows.column("n").to_pylist() == [3, 1]


def test_of_partitions_only_the_columns_asked_for_are_read(warehouse):
    put(warehouse, pa.table({"n": [1], "wide": [[0.5] * 3]}), asset="chunks", partition="ep01")
    assert warehouse.read_all("chunks", ["ep01"], NUMBERS).column_names == ["n"]


def test_no_partition_at_all_is_an_empty_table_with_the_right_columns(warehouse):
    assert warehouse.read_all("chunks", ["ep01"], CHUNKS).equals(CHUNKS.empty_table())


def test_a_damaged_partition_has_no_rows_just_as_it_has_no_record(warehouse):
    put(warehouse, pa.table({"n": [1]}), asset="chunks", partition="ep01")
    put(warehouse, pa.table({"n": [2]}), asset="chunks", partition="ep02")
    warehouse.path("chunks", "ep01").write_bytes(b"PAR1")
    assert warehouse.read_all("chunks", ["ep01", "ep02"], NUMBERS).column("n").to_pylist() == [2]


def test_partitions_with_odd_names_are_kept_apart(warehouse):
    for n, name in enumerate(ODD_PARTITIONS):
        put(warehouse, pa.table({"n": [n]}), asset="chunks", partition=name)
        warehouse.record_failure("notes", name, Failure("r", {}, name, ""))
    assert warehouse.partitions("chunks") == sorted(ODD_PARTITIONS)
    assert warehouse.failed_partitions("notes") == sorted(ODD_PARTITIONS)
    assert [warehouse.read("chunks", name)["n"][0].as_py() for name in ODD_PARTITIONS] == list(range(len(ODD_PARTITIONS)))


def test_a_record_of_a_failure_is_no_partition(warehouse):
    warehouse.record_failure("notes", "ep01", FAILURE)
    assert warehouse.partitions("notes") == []


def test_the_tables_are_those_that_have_a_folder(warehouse):
    assert warehouse.tables() == []
    put(warehouse, OLD, OLD_BESIDE)
    (warehouse.root / "librarian.duckdb").write_bytes(b"")
    assert warehouse.tables() == ["eval", "rankings"]


# The commit point


def test_an_output_with_the_tables_it_was_written_with_is_committed(warehouse):
    assert put(warehouse, OLD, OLD_BESIDE) == warehouse.committed("eval")


@pytest.mark.parametrize("what", ["another write", "gone", "damaged"])
def test_an_output_whose_table_beside_is_not_its_own_is_not_committed(warehouse, what):
    put(warehouse, OLD, OLD_BESIDE)
    if what == "another write":
        warehouse.write("rankings", None, NEW_BESIDE, recipe=RECIPE, inputs=INPUTS)
    elif what == "gone":
        warehouse.path("rankings").unlink()
    else:
        warehouse.path("rankings").write_bytes(b"PAR1")
    assert warehouse.committed("eval") is None


class Killed(BaseException):
    """Stands for a writer that dies at this point: nothing after it runs, not even its error handling."""


CALLS = ("write_table", "fsync", "replace", "unlink")


def count_calls_until(monkeypatch: pytest.MonkeyPatch, dies_at: int | None) -> list[str]:
    """Kills the writer at the call that has this number; every call that touches the disk is counted."""
    calls: list[str] = []

    def tapped(name, original):
        def call(*args, **kwargs):
            calls.append(name)
            if dies_at is not None and len(calls) > dies_at:
                raise Killed(name)
            return original(*args, **kwargs)

        return call

    monkeypatch.setattr(pq, "write_table", tapped("write_table", pq.write_table))
    monkeypatch.setattr(os, "fsync", tapped("fsync", os.fsync))
    monkeypatch.setattr(Path, "replace", tapped("replace", Path.replace))
    monkeypatch.setattr(Path, "unlink", tapped("unlink", Path.unlink))
    return calls


def test_a_writer_killed_at_any_call_leaves_each_file_old_or_new_and_never_a_mixture(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        calls = count_calls_until(patch, None)
        put(Warehouse(tmp_path / "whole"), NEW, NEW_BESIDE)
    assert set(calls) == set(CALLS)
    for dies_at in range(len(calls)):
        warehouse = Warehouse(tmp_path / str(dies_at))
        put(warehouse, OLD, OLD_BESIDE)
        with monkeypatch.context() as patch:
            count_calls_until(patch, dies_at)
            with pytest.raises(Killed):
                put(warehouse, NEW, NEW_BESIDE)
        main, beside = warehouse.read("eval"), warehouse.read("rankings")
        assert main.to_pylist() in (OLD.to_pylist(), NEW.to_pylist())
        assert beside.to_pylist() in (OLD_BESIDE.to_pylist(), NEW_BESIDE.to_pylist())
        assert (warehouse.committed("eval") is not None) == (main.equals(OLD) == beside.equals(OLD_BESIDE))
        put(warehouse, NEW, NEW_BESIDE)
        assert warehouse.committed("eval").content_hash == content_hash(NEW)


def test_a_writer_killed_at_any_call_leaves_no_output_that_still_counts_as_failed(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        calls = count_calls_until(patch, None)
        put(Warehouse(tmp_path / "whole"), NEW)
    for dies_at in range(len(calls)):
        warehouse = Warehouse(tmp_path / str(dies_at))
        warehouse.record_failure("eval", None, FAILURE)
        with monkeypatch.context() as patch:
            count_calls_until(patch, dies_at)
            with pytest.raises(Killed):
                put(warehouse, NEW)
        assert warehouse.committed("eval") is None or warehouse.failure("eval") is None


def test_the_data_is_on_disk_before_its_name_is(warehouse, monkeypatch):
    calls = count_calls_until(monkeypatch, None)
    put(warehouse, OLD)
    assert [call for call in calls if call != "unlink"] == ["write_table", "fsync", "replace", "fsync"]


KILLED_WRITER = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
from librarian_pipeline.storage.warehouse import Warehouse
warehouse, n = Warehouse(Path(sys.argv[1])), 0
print("ready", flush=True)
while True:
    n += 1
    big = pa.table({"n": pa.array([n] * 200_000)})
    warehouse.write("eval", None, big, recipe={}, inputs={}, beside={"rankings": big})
"""


def test_a_writer_that_is_really_killed_leaves_whole_files_and_a_sweep_removes_the_rest(warehouse):
    for wait_s in (0.05, 0.08, 0.11):
        writer = subprocess.Popen(
            [sys.executable, "-c", KILLED_WRITER, str(warehouse.root)], stdout=subprocess.PIPE, cwd=Path.cwd()
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(wait_s)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        for table in warehouse.tables():
            for partition in warehouse.partitions(table):
                rows = warehouse.read(table, partition)
                assert content_hash(rows) == warehouse.provenance(table, partition).content_hash
        warehouse.sweep()
        assert temporary_files(warehouse) == []


# Sweeping


def test_a_sweep_leaves_the_files_of_writers_that_are_alive(warehouse):
    folder = warehouse.root / "eval"
    folder.mkdir(parents=True)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    alive = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    for pid in (gone.pid, alive.pid, os.getpid()):
        (folder / f".ep.01.parquet.{pid}.tmp").write_bytes(b"half")
    try:
        warehouse.sweep()
    finally:
        alive.communicate(b"\n")
    assert temporary_files(warehouse) == sorted(f".ep.01.parquet.{pid}.tmp" for pid in (alive.pid, os.getpid()))


@pytest.mark.parametrize("name", [".x.tmp", ".notes.md.tmp", "..tmp", ".ep01.parquet.12x.tmp"])
def test_a_sweep_leaves_other_programs_files_alone(warehouse, name):
    (warehouse.root / "eval").mkdir(parents=True)
    (warehouse.root / "eval" / name).write_bytes(b"")
    warehouse.sweep()
    assert temporary_files(warehouse) == [name]


def test_a_sweep_of_a_warehouse_that_does_not_exist_does_nothing(warehouse):
    warehouse.sweep()
    assert not warehouse.root.exists()


# Failures


def test_a_failure_is_remembered_as_it_was(warehouse):
    warehouse.record_failure("notes", "ep01", FAILURE)
    assert warehouse.failure("notes", "ep01") == FAILURE
    assert warehouse.failure("notes", "ep02") is None


def test_a_failure_leaves_the_earlier_output(warehouse):
    put(warehouse, OLD, asset="notes", partition="ep01")
    warehouse.record_failure("notes", "ep01", FAILURE)
    assert warehouse.read("notes", "ep01").equals(
        OLD.replace_schema_metadata(warehouse.read("notes", "ep01").schema.metadata)
    )


def test_a_success_clears_the_failure(warehouse):
    warehouse.record_failure("notes", "ep01", FAILURE)
    put(warehouse, OLD, asset="notes", partition="ep01")
    assert warehouse.failure("notes", "ep01") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"other": 1}', b"\xff"])
def test_a_damaged_record_of_a_failure_is_none_so_that_the_step_is_tried_again(warehouse, damage):
    warehouse.record_failure("notes", "ep01", FAILURE)
    (warehouse.root / "notes" / "ep01.failed.json").write_bytes(damage)
    assert warehouse.failure("notes", "ep01") is None


def test_the_line_of_a_failure_says_what_is_wrong_and_what_to_do():
    assert FAILURE.line == "ep01.md: line 3 is wrong: mend it"
    assert Failure("r", {}, "it broke", "").line == "it broke"


# Dropping


def test_a_dropped_partition_is_forgotten_with_its_failure_and_no_other_is(warehouse):
    for name in ("ep01", "ep02"):
        put(warehouse, OLD, asset="notes", partition=name)
        warehouse.record_failure("notes", name, FAILURE)
    warehouse.drop("notes", "ep01")
    assert warehouse.partitions("notes") == ["ep02"]
    assert warehouse.failed_partitions("notes") == ["ep02"]


def test_the_tables_beside_a_dropped_partition_are_dropped_with_it(warehouse):
    for name in ("ep01", "ep02"):
        warehouse.write("transcripts", name, OLD, recipe={}, inputs={}, beside={"speech_spans": OLD})
    warehouse.drop("transcripts", "ep01")
    assert warehouse.partitions("transcripts") == warehouse.partitions("speech_spans") == ["ep02"]


def test_dropping_what_is_not_there_does_nothing(warehouse):
    warehouse.drop("notes", "ep01")
    assert warehouse.partitions("notes") == []


# Two warehouses that share files


def no_links(source: Path, target: Path) -> None:
    raise OSError(errno.EPERM, "the file system has no links")


def out_of(warehouse: Warehouse) -> dict[str, bytes]:
    return {str(path.relative_to(warehouse.root)): path.read_bytes() for path in warehouse.root.rglob("*") if path.is_file()}


@pytest.fixture(params=["linked", "copied"])
def sharing(request, monkeypatch):
    if request.param == "copied":
        monkeypatch.setattr(os, "link", no_links)
    return request.param


def test_a_fork_has_all_that_there_is_and_nothing_half_written(warehouse, tmp_path, sharing):
    put(warehouse, OLD, OLD_BESIDE, partition="ep01")
    warehouse.record_failure("notes", "ep01", FAILURE)
    before = out_of(warehouse)
    (warehouse.root / "eval" / f".ep01.parquet.{os.getpid()}.tmp").write_bytes(b"half")
    other = warehouse.fork(tmp_path / "other")
    assert out_of(other) == before
    assert other.committed("eval", "ep01") == warehouse.committed("eval", "ep01")
    assert other.path("eval", "ep01").samefile(warehouse.path("eval", "ep01")) == (sharing == "linked")
    assert other.cache_dir == warehouse.cache_dir


@pytest.mark.parametrize("writer", ["the fork", "the one it was forked from"])
def test_what_one_writes_the_other_does_not_see(warehouse, tmp_path, sharing, writer):
    put(warehouse, OLD, OLD_BESIDE, partition="ep01")
    put(warehouse, OLD, OLD_BESIDE, partition="ep02")
    warehouse.record_failure("eval", "ep01", FAILURE)
    other = warehouse.fork(tmp_path / "other")
    changed, kept = (other, warehouse) if writer == "the fork" else (warehouse, other)
    before = out_of(kept)
    put(changed, NEW, NEW_BESIDE, partition="ep01")
    changed.drop("eval", "ep02")
    assert out_of(kept) == before
    assert changed.read("eval", "ep01").to_pylist() == NEW.to_pylist()


def test_an_adopted_output_replaces_the_own_one_with_the_tables_beside_it_and_clears_its_failure(
    warehouse, tmp_path, sharing
):
    other = Warehouse(tmp_path / "other")
    written = put(other, NEW, NEW_BESIDE, partition="ep01")
    put(warehouse, OLD, OLD_BESIDE, partition="ep01")
    warehouse.record_failure("eval", "ep01", FAILURE)
    assert warehouse.adopt(other, "eval", "ep01") == written
    assert warehouse.committed("eval", "ep01") == written
    assert warehouse.read("rankings", "ep01").to_pylist() == NEW_BESIDE.to_pylist()
    assert warehouse.failure("eval", "ep01") is None


def test_an_output_that_is_the_same_file_already_can_be_adopted_and_leaves_nothing_behind(warehouse, tmp_path, sharing):
    written = put(warehouse, OLD, OLD_BESIDE)
    other = warehouse.fork(tmp_path / "other")
    assert other.adopt(warehouse, "eval", None) == written
    assert temporary_files(other) == []


def test_what_the_other_does_not_have_is_not_adopted_and_the_own_stays(warehouse, tmp_path):
    written = put(warehouse, OLD)
    assert warehouse.adopt(Warehouse(tmp_path / "other"), "eval", None) is None
    assert warehouse.committed("eval") == written
