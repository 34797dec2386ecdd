"""The memo may save time, and must never be believed over a file."""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline import cache
from librarian_pipeline.storage import record_memo
from librarian_pipeline.storage.provenance import PARQUET_KEY, Provenance
from librarian_pipeline.storage.record_memo import FEW, RecordMemo
from librarian_pipeline.storage.warehouse import Warehouse

LONG_AGO_NS = 1_700_000_000_000_000_000
MEMO = ".memo/records.json"


def put(root: Path, name: str, content_hash: str, columns: tuple[str, ...] = ("n",), mtime_ns: int = LONG_AGO_NS) -> Path:
    """A file of ours, put in place as the warehouse does it."""
    record = Provenance("chunks", "ep01", {"code": 1}, {"notes[ep01]": "abc"}, content_hash, 1, {}, {"share": 0.5})
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({column: [1] for column in columns})
    temporary = path.with_name(".new")
    pq.write_table(table.replace_schema_metadata({PARQUET_KEY: record.to_json()}), temporary)
    os.utime(temporary, ns=(mtime_ns, mtime_ns))
    temporary.replace(path)
    return path


def write_over(path: Path, content_hash: str) -> None:
    """The same file with another content, and its time set back, once the clock of the file system has gone on."""
    data = put(path.parent, "spare.parquet", content_hash).read_bytes()
    clock = path.with_name("clock")
    clock.touch()
    while clock.stat().st_ctime_ns <= path.stat().st_ctime_ns:
        clock.touch()
    path.write_bytes(data)
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))


def hash_in(memo: RecordMemo, name: str) -> str | None:
    found = memo.look_up(name)
    return found.record.content_hash if found else None


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose footers were read."""
    paths: list[str] = []
    original = pq.read_metadata

    def counted(path: str) -> pq.FileMetaData:
        paths.append(Path(path).name)
        return original(path)

    monkeypatch.setattr(record_memo.pq, "read_metadata", counted)
    return paths


@pytest.fixture
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as settled at once: the time of a change of the inode can't be set back."""
    monkeypatch.setattr(cache, "SETTLED_NS", -1)


def filled(root: Path, n: int = FEW + 1) -> RecordMemo:
    """A memo that knows `n` files, and has been saved."""
    memo = RecordMemo(root)
    for number in range(n):
        put(root, f"chunks/ep{number}.parquet", f"hash {number}")
        memo.look_up(f"chunks/ep{number}.parquet")
    memo.save()
    return memo


@pytest.mark.usefixtures("_settled")
def test_the_footer_of_a_file_that_stays_as_it_is_is_read_once(tmp_path, read):
    put(tmp_path, "chunks/ep01.parquet", "one")
    memo = RecordMemo(tmp_path)
    assert [hash_in(memo, "chunks/ep01.parquet") for _ in range(3)] == ["one"] * 3
    assert read == ["ep01.parquet"]


@pytest.mark.usefixtures("_settled")
def test_what_is_remembered_is_what_the_footer_says(tmp_path):
    path = put(tmp_path, "chunks/ep01.parquet", "one")
    memo = RecordMemo(tmp_path)
    memo.look_up("chunks/ep01.parquet")
    again = memo.look_up("chunks/ep01.parquet")
    assert again.record == Provenance.from_json(pq.read_metadata(path).metadata[PARQUET_KEY])
    assert again.changed_ns == path.stat().st_mtime_ns


@pytest.mark.usefixtures("_settled")
def test_a_file_put_in_its_place_is_read_even_with_the_same_size_and_time(tmp_path):
    first = put(tmp_path, "chunks/ep01.parquet", "one")
    size = first.stat().st_size
    memo = RecordMemo(tmp_path)
    assert hash_in(memo, "chunks/ep01.parquet") == "one"
    assert put(tmp_path, "chunks/ep01.parquet", "two").stat().st_size == size
    assert hash_in(memo, "chunks/ep01.parquet") == "two"


@pytest.mark.usefixtures("_settled")
def test_a_file_written_over_is_read_even_if_its_time_is_set_back(tmp_path):
    path = put(tmp_path, "chunks/ep01.parquet", "one")
    memo = RecordMemo(tmp_path)
    assert hash_in(memo, "chunks/ep01.parquet") == "one"
    write_over(path, "two")
    assert hash_in(memo, "chunks/ep01.parquet") == "two"


@pytest.mark.usefixtures("_settled")
@pytest.mark.parametrize("what", ["gone", "damaged", "not ours"])
def test_a_file_that_is_no_longer_ours_is_none(tmp_path, what):
    path = put(tmp_path, "chunks/ep01.parquet", "one")
    memo = RecordMemo(tmp_path)
    memo.look_up("chunks/ep01.parquet")
    if what == "gone":
        path.unlink()
    elif what == "damaged":
        path.write_bytes(path.read_bytes()[:-3])
    else:
        pq.write_table(pa.table({"n": [1]}), path)
    assert memo.look_up("chunks/ep01.parquet") is None


def test_a_file_written_just_now_is_not_remembered_as_it_may_change_within_the_clocks_step(tmp_path, read):
    put(tmp_path, "chunks/ep01.parquet", "one")
    memo = RecordMemo(tmp_path)
    for _ in range(2):
        memo.look_up("chunks/ep01.parquet")
    assert len(read) == 2


def test_files_differ_in_their_columns_and_not_in_their_rows(tmp_path):
    for number, columns in enumerate([("n",), ("n",), ("n", "m")]):
        put(tmp_path, f"chunks/ep{number}.parquet", str(number), columns)
    memo = RecordMemo(tmp_path)
    one, alike, other = (memo.look_up(f"chunks/ep{number}.parquet").columns for number in range(3))
    assert one == alike != other


# Kept between processes


@pytest.mark.usefixtures("_settled")
def test_a_later_process_reads_no_more_than_a_few_footers(tmp_path, read):
    filled(tmp_path, 4 * FEW)
    del read[:]
    later = RecordMemo(tmp_path)
    found = [hash_in(later, f"chunks/ep{number}.parquet") for number in range(4 * FEW)]
    assert found == [f"hash {number}" for number in range(4 * FEW)]
    assert len(read) < FEW


@pytest.mark.usefixtures("_settled")
def test_what_changed_since_it_was_kept_is_read_by_a_later_process(tmp_path):
    filled(tmp_path)
    put(tmp_path, "chunks/ep3.parquet", "hash x")
    (tmp_path / "chunks" / "ep4.parquet").unlink()
    later = RecordMemo(tmp_path)
    found = [hash_in(later, f"chunks/ep{number}.parquet") for number in reversed(range(FEW + 1))][::-1]
    assert found[3:5] == ["hash x", None]


def damaged(data: bytes, how: str) -> bytes:
    seal, _, body = data.partition(b"\n")
    return {
        "empty": b"",
        "text": b"hello",
        "cut": data[:-1],
        "one digit": data.replace(b"hash 7", b"hash 8", 1),
        "no seal": body,
        "not UTF-8": data.replace(b"hash 7", b"hash \xff", 1),
        "no objects": seal + b"\n[]",
    }[how]


@pytest.mark.usefixtures("_settled")
@pytest.mark.parametrize("how", ["empty", "text", "cut", "one digit", "no seal", "not UTF-8", "no objects"])
def test_a_damaged_memo_is_as_good_as_none(tmp_path, how):
    filled(tmp_path)
    memo = tmp_path / MEMO
    memo.write_bytes(damaged(memo.read_bytes(), how))
    later = RecordMemo(tmp_path)
    assert [hash_in(later, f"chunks/ep{n}.parquet") for n in range(FEW + 1)] == [f"hash {n}" for n in range(FEW + 1)]
    later.save()
    assert json.loads(memo.read_text().partition("\n")[2]).keys() == {f"chunks/ep{n}.parquet" for n in range(FEW + 1)}


@pytest.mark.usefixtures("_settled")
@pytest.mark.parametrize("form", ["another pyarrow", "another record"])
def test_the_memo_of_another_version_is_not_read(tmp_path, monkeypatch, read, form):
    filled(tmp_path)
    del read[:]
    if form == "another pyarrow":
        monkeypatch.setattr(record_memo.pa, "__version__", "0.0.1")
    else:
        monkeypatch.setattr(record_memo, "fields", lambda record: ())
    later = RecordMemo(tmp_path)
    for number in range(FEW + 1):
        later.look_up(f"chunks/ep{number}.parquet")
    assert len(read) == FEW + 1


@pytest.mark.usefixtures("_settled")
def test_a_few_new_files_are_not_worth_writing_all_again(tmp_path):
    memo = filled(tmp_path, 100)
    os.utime(tmp_path / MEMO, ns=(1, 1))
    for name, written in [("x", False), ("y", False), ("z", True)]:
        for number in range(2):
            put(tmp_path, f"chunks/{name}{number}.parquet", "new")
            memo.look_up(f"chunks/{name}{number}.parquet")
        memo.save()
        assert ((tmp_path / MEMO).stat().st_mtime_ns != 1) is written


@pytest.mark.usefixtures("_settled")
def test_a_memo_that_cannot_be_written_does_without(tmp_path):
    (tmp_path / ".memo").write_text("in the way")
    memo = filled(tmp_path)
    assert hash_in(memo, "chunks/ep7.parquet") == "hash 7"


@pytest.mark.usefixtures("_settled")
def test_what_is_gone_is_not_kept_for_ever(tmp_path):
    memo = filled(tmp_path)
    for number in range(FEW):
        (tmp_path / "chunks" / f"ep{number}.parquet").unlink()
    for number in range(20):
        put(tmp_path, f"notes/ep{number}.parquet", "new")
        memo.look_up(f"notes/ep{number}.parquet")
    memo.save()
    assert len(json.loads((tmp_path / MEMO).read_text().partition("\n")[2])) == 21


WRITER = """
import sys, random
from pathlib import Path
from librarian_pipeline import cache
from librarian_pipeline.storage import record_memo
cache.SETTLED_NS, record_memo.WORTH_SAVING = -1, 10**9
root = Path(sys.argv[1])
while True:
    memo = record_memo.RecordMemo(root)
    for number in random.sample(range(51), 40):
        memo.look_up(f"chunks/ep{number}.parquet")
    memo.save()
"""


@pytest.mark.usefixtures("_settled")
def test_writers_at_the_same_time_and_their_deaths_leave_a_memo_that_is_whole(tmp_path):
    filled(tmp_path)
    warehouse = Warehouse(tmp_path)
    for _ in range(5):
        writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)]) for _ in range(2)]
        time.sleep(1.5)
        for writer in writers:
            assert writer.poll() is None
            writer.kill()
            writer.wait()
        known = dict(record_memo._loaded(tmp_path / MEMO))
        assert {name: file.record.content_hash for name, file in known.items()}.items() <= {
            f"chunks/ep{number}.parquet": f"hash {number}" for number in range(FEW + 1)
        }.items()
        assert len(known) >= 40
    warehouse.sweep()
    assert [path.name for path in (tmp_path / ".memo").iterdir()] == ["records.json"]


WHAT = st.sampled_from(["put", "write over", "remove", "look up", "new process", "save"])


@given(steps=st.lists(st.tuples(WHAT, st.integers(0, 2), st.integers(0, 9)), max_size=30))
def test_whatever_happens_the_memo_says_what_the_files_say(tmp_path_factory, steps):
    """Files of the same size and time, so that only what can't be set tells them apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "SETTLED_NS", -1)
        patch.setattr(record_memo, "FEW", 1)
        patch.setattr(record_memo, "WORTH_SAVING", 10**9)
        root = tmp_path_factory.mktemp("memo")
        memo, truth, spare = RecordMemo(root), dict.fromkeys(["a", "b", "c"]), itertools.count()
        for what, which, content in steps:
            name = "abc"[which]
            path = root / f"chunks/{name}.parquet"
            if what == "put":
                if path.exists():  # a second name keeps its inode from being given to the next file at once
                    os.link(path, root / f"{next(spare)}.old")
                put(root, f"chunks/{name}.parquet", str(content))
                truth[name] = str(content)
            elif what == "write over" and path.exists():
                write_over(path, str(content))
                truth[name] = str(content)
            elif what == "remove":
                if path.exists():
                    path.rename(root / f"{next(spare)}.old")
                truth[name] = None
            elif what == "look up":
                assert hash_in(memo, f"chunks/{name}.parquet") == truth[name]
            elif what == "new process":
                memo = RecordMemo(root)
            else:
                memo.save()
        assert {name: hash_in(memo, f"chunks/{name}.parquet") for name in truth} == truth
