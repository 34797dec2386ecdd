"""What is published is whole, named by its content, never changed, and can be gone back to."""

import hashlib
import json
import multiprocessing
import resource
import shutil
import signal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from librarian_pipeline.errors import LibrarianError, UsageError
from librarian_pipeline.storage import snapshot_writing
from librarian_pipeline.storage import snapshots as snapshots_module
from librarian_pipeline.storage.manifest import MANIFEST, Manifest
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.storage.snapshot import SnapshotError
from librarian_pipeline.storage.snapshot_writing import DATABASE
from librarian_pipeline.storage.snapshots import Snapshots
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline_tests.storage.publishing import KEEP, SEARCH, numbers_in, publish, records_of, snapshots_at


def served(home: Path) -> str | None:
    return snapshots_at(home).current_id()


def folders(home: Path) -> set[str]:
    return {path.name for path in (home / "published").iterdir() if path.is_dir()}


def bytes_below(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


# What a snapshot holds


def test_a_snapshot_holds_every_table_as_parquet_and_in_its_database(tmp_path: Path) -> None:
    publish(tmp_path, 7)
    snapshot = snapshots_at(tmp_path).current()
    assert snapshot is not None
    assert numbers_in(snapshot) == {7}
    with duckdb.connect(snapshot.folder / DATABASE, read_only=True) as database:
        for table in ("scores", "rankings", "passages"):
            assert database.execute(f"SELECT count(*), min(number), max(number) FROM {table}").fetchall() == [(50, 7, 7)]
    assert not list(snapshot.folder.glob("*.wal"))


@pytest.mark.parametrize("files_at_once", [1, 2, 3, 100])
def test_its_database_has_the_rows_of_every_file_however_many_go_in_at_once(
    files_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_writing, "FILES_AT_ONCE", files_at_once)
    warehouse = Warehouse(tmp_path / "warehouse")
    # The last ones were written with their columns in another order.
    tables = [pa.table({"name": [f"row {n}"] * n, "number": [n] * n}) for n in range(1, 5)]
    tables += [pa.table({"number": [n] * n, "name": [f"row {n}"] * n}) for n in range(5, 8)]
    records = [
        warehouse.write("passages", f"ep{n}", rows, recipe={"code": 1}, inputs={}, beside={"scores": rows})
        for n, rows in enumerate(tables, start=1)
    ]
    snapshot_writing.write_snapshot(warehouse, records, SEARCH, tmp_path / "snapshot")
    expected = [(f"row {n}", n) for n in range(1, 8) for _ in range(n)]
    with duckdb.connect(tmp_path / "snapshot" / DATABASE, read_only=True) as database:
        for table in ("passages", "scores"):
            assert database.execute(f"SELECT name, number FROM {table} ORDER BY number").fetchall() == expected


def test_its_manifest_tells_outputs_recipes_rows_digests_and_how_it_is_searched(tmp_path: Path) -> None:
    name = publish(tmp_path, 7)
    folder = tmp_path / "published" / name
    manifest = Manifest.from_json((folder / MANIFEST).read_text())
    assert (manifest.id, manifest.search) == (name, SEARCH)
    assert manifest.rows == {"passages": 50, "scores": 50, "rankings": 50}
    assert set(manifest.outputs) == {"passages[ep01]", "scores"}
    recipes = {output: manifest.recipes[told.recipe] for output, told in manifest.outputs.items()}
    assert recipes == {"passages[ep01]": {"code": 1}, "scores": {"code": 2}}
    found = bytes_below(folder)
    del found[MANIFEST]
    assert {file: digest.sha256 for file, digest in manifest.files.items()} == found


def test_the_records_of_its_outputs_can_be_read_like_those_of_the_warehouse(tmp_path: Path) -> None:
    publish(tmp_path, 7)
    snapshot = snapshots_at(tmp_path).current()
    assert snapshot is not None
    record = snapshot.tables.committed("scores")
    assert record is not None
    assert record.inputs == {"file": "7"}


# Its name


def test_equal_content_is_the_same_snapshot_and_publishing_it_again_changes_no_byte(tmp_path: Path) -> None:
    name = publish(tmp_path, 7)
    before = bytes_below(tmp_path / "published")
    assert publish(tmp_path, 7) == name
    assert bytes_below(tmp_path / "published") == before


def test_other_rows_another_recipe_or_another_way_to_search_make_another_snapshot(tmp_path: Path) -> None:
    snapshots, warehouse = snapshots_at(tmp_path), Warehouse(tmp_path / "warehouse")
    names = [snapshots.build(warehouse, records_of(warehouse, number), SEARCH).id for number in (1, 2)]
    records = records_of(warehouse, 1)
    names.append(snapshots.build(warehouse, records, {**SEARCH, "fusion.c": 10}).id)
    rows = warehouse.read("passages", "ep01").replace_schema_metadata()
    records[0] = warehouse.write("passages", "ep01", rows, recipe={"code": 3}, inputs={})
    names.append(snapshots.build(warehouse, records, SEARCH).id)
    assert len(set(names)) == 4


# What can't be published


def test_a_table_with_a_flipped_bit_is_not_published(tmp_path: Path) -> None:
    publish(tmp_path, 1)
    before = bytes_below(tmp_path / "published")
    warehouse, snapshots = Warehouse(tmp_path / "warehouse"), snapshots_at(tmp_path)
    records = records_of(warehouse, 2)
    path = warehouse.path("rankings")
    data = bytearray(path.read_bytes())
    n_refused = 0
    for position in range(4, len(data) // 2, 7):
        flipped = bytearray(data)
        flipped[position] ^= 1
        path.write_bytes(flipped)
        if refusal := _refusal(snapshots, warehouse, records):
            n_refused += 1
            assert str(path) in refusal
            assert bytes_below(tmp_path / "published") == before
        else:  # a bit that nothing is read from: the rows are the same
            shutil.rmtree(tmp_path / "published")
            publish(tmp_path, 1)
            before = bytes_below(tmp_path / "published")
    assert n_refused > 5


def _refusal(snapshots: Snapshots, warehouse: Warehouse, records: list[Provenance]) -> str | None:
    try:
        snapshots.build(warehouse, records, SEARCH)
    except LibrarianError as error:
        return str(error)
    return None


def test_a_table_that_was_replaced_meanwhile_is_not_published(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    records = records_of(warehouse, 1)
    records_of(warehouse, 2)
    with pytest.raises(LibrarianError, match="was replaced while it was published"):
        snapshots_at(tmp_path).build(warehouse, records, SEARCH)
    assert folders(tmp_path) == set()


def _publish_within(home: Path, max_bytes: int, answers: "multiprocessing.Queue[str]") -> None:
    """With no room for a file of more than `max_bytes`."""
    warehouse = Warehouse(home / "warehouse-2")
    records = records_of(warehouse, 2)
    snapshots = snapshots_at(home)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))
    try:
        with snapshots.locked():
            snapshots.serve(snapshots.build(warehouse, records, SEARCH))
    except LibrarianError as error:
        answers.put(str(error))
    else:
        answers.put("published")


@pytest.mark.parametrize("max_bytes", [0, 100, 20_000])
def test_where_there_is_no_room_what_was_served_before_still_is(max_bytes: int, tmp_path: Path) -> None:
    publish(tmp_path, 1)
    before = bytes_below(tmp_path / "published")
    context = multiprocessing.get_context("forkserver")
    answers: multiprocessing.Queue[str] = context.Queue()
    child = context.Process(target=_publish_within, args=(tmp_path, max_bytes, answers))
    child.start()
    said = answers.get(timeout=60)
    child.join()
    assert "can't be written" in said
    assert "what was published before goes on being served" in said
    assert bytes_below(tmp_path / "published") == before


# Damage


def _damages() -> dict[str, "object"]:
    def cut(path: Path) -> None:
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data[:-1])

    def remove(path: Path) -> None:
        path.unlink()

    def empty(path: Path) -> None:
        path.unlink()
        path.touch()

    return {"cut": cut, "removed": remove, "emptied": empty}


@pytest.mark.parametrize("damage", ["cut", "removed", "emptied"])
@pytest.mark.parametrize("file", [MANIFEST, DATABASE, "scores/all.parquet", "passages/ep01.parquet"])
def test_a_damaged_snapshot_is_refused_and_the_one_before_it_is_named(file: str, damage: str, tmp_path: Path) -> None:
    first, second = publish(tmp_path, 1), publish(tmp_path, 2)
    _damages()[damage](tmp_path / "published" / second / file)  # type: ignore[operator]
    with pytest.raises(SnapshotError) as refused:
        snapshots_at(tmp_path).current()
    assert f"the snapshot {second} is damaged" in str(refused.value)
    assert f"goes back to {first}" in str(refused.value)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_a_flipped_bit_anywhere_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    home = tmp_path_factory.mktemp("flip")
    publish(home, 1)
    snapshot = snapshots_at(home).current()
    assert snapshot is not None
    path = snapshot.folder / data.draw(st.sampled_from([MANIFEST, *snapshot.manifest.files]))
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 6))
    path.unlink()
    path.write_bytes(content)
    with pytest.raises(SnapshotError):  # noqa: PT012
        again = snapshots_at(home).current()
        assert again is not None
        again.verify()


def test_a_file_is_read_to_the_last_bit_as_it_was_published_or_not_at_all(tmp_path: Path) -> None:
    publish(tmp_path, 1)
    snapshot = snapshots_at(tmp_path).current()
    assert snapshot is not None
    name = "passages/ep01.parquet"
    path = snapshot.folder / name
    whole = path.read_bytes()
    assert snapshot.read_verified(name) == whole
    path.write_bytes(bytes([*whole[:-1], whole[-1] ^ 1]))
    with pytest.raises(SnapshotError, match=f"{name} is not as it was published"):
        snapshot.read_verified(name)
    path.unlink()
    with pytest.raises(SnapshotError, match=f"{name} can't be read"):
        snapshot.read_verified(name)


def test_publishing_a_damaged_snapshot_again_makes_it_whole(tmp_path: Path) -> None:
    name = publish(tmp_path, 1)
    path = tmp_path / "published" / name / "scores" / "all.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    path.write_bytes(data)
    assert publish(tmp_path, 1) == name
    snapshot = snapshots_at(tmp_path).current()
    assert snapshot is not None
    snapshot.verify()


@pytest.mark.parametrize("text", ["", "../../etc", "0123456789abcdeg", "\x00"])
def test_a_pointer_that_names_no_snapshot_is_refused_and_publishing_mends_it(text: str, tmp_path: Path) -> None:
    name = publish(tmp_path, 1)
    (tmp_path / "published" / "CURRENT").write_text(text)
    with pytest.raises(SnapshotError, match="names no snapshot"):
        snapshots_at(tmp_path).current()
    assert "names no snapshot" in str(snapshots_at(tmp_path).problem())
    publish(tmp_path, 1)
    assert served(tmp_path) == name


# Back and forth


def test_going_back_serves_the_one_before_and_again_the_one_before_that_until_the_oldest(tmp_path: Path) -> None:
    a, b, c = (publish(tmp_path, number) for number in (1, 2, 3))
    snapshots = snapshots_at(tmp_path)
    assert snapshots.roll_back() == (c, b)
    assert snapshots.roll_back() == (b, a)
    with pytest.raises(UsageError, match=f"{a} is the oldest whole snapshot that is kept"):
        snapshots.roll_back()
    assert served(tmp_path) == a


def test_publishing_the_same_again_after_going_back_serves_it_again_with_the_same_way_back(tmp_path: Path) -> None:
    a, b, c = (publish(tmp_path, number) for number in (1, 2, 3))
    snapshots = snapshots_at(tmp_path)
    snapshots.roll_back()
    assert publish(tmp_path, 3) == c == served(tmp_path)
    assert snapshots.history() == [a, b, c]


def test_what_is_published_after_going_back_takes_the_place_of_what_was_left_behind(tmp_path: Path) -> None:
    a, b, _ = (publish(tmp_path, number) for number in (1, 2, 3))
    snapshots = snapshots_at(tmp_path)
    snapshots.roll_back()
    d = publish(tmp_path, 4)
    assert snapshots.history() == [a, b, d]
    assert snapshots.roll_back() == (d, b)


def test_a_damaged_snapshot_is_passed_over_on_the_way_back(tmp_path: Path) -> None:
    a, b, c = (publish(tmp_path, number) for number in (1, 2, 3))
    path = tmp_path / "published" / b / "scores" / "all.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    path.write_bytes(data)
    assert snapshots_at(tmp_path).roll_back() == (c, a)


def test_before_the_first_publication_there_is_nothing_to_read_or_go_back_to(tmp_path: Path) -> None:
    snapshots = snapshots_at(tmp_path)
    assert snapshots.current() is None
    assert snapshots.problem() == "nothing is published"
    assert snapshots.history() == []
    with pytest.raises(UsageError, match="nothing is published"):
        snapshots.roll_back()


def test_without_its_history_the_order_is_that_in_which_they_were_made(tmp_path: Path) -> None:
    names = [publish(tmp_path, number) for number in (1, 2, 3)]
    for text in (None, "{", "[1, 2]"):
        (tmp_path / "published" / "HISTORY").unlink(missing_ok=True)
        if text is not None:
            (tmp_path / "published" / "HISTORY").write_text(text)
        if text != "[1, 2]":
            assert snapshots_at(tmp_path).history() == names


class Model:
    """What going back and forth means: a line of names, and where in it one stands."""

    def __init__(self) -> None:
        self.line: list[str] = []
        self.served: str | None = None

    def publish(self, name: str) -> None:
        if name == self.served:
            return
        kept = self.line[: self.line.index(self.served) + 1] if self.served in self.line else self.line
        self.line = [*(other for other in kept if other != name), name][-KEEP:]
        self.served = name

    def roll_back(self) -> bool:
        at = self.line.index(self.served) if self.served is not None else 0
        if at:
            self.served = self.line[at - 1]
        return bool(at)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.one_of(st.integers(1, 4), st.just("back")), min_size=1, max_size=8))
def test_any_sequence_of_publications_and_steps_back(
    tmp_path_factory: pytest.TempPathFactory, moves: list[int | str]
) -> None:
    home, model = tmp_path_factory.mktemp("moves"), Model()
    for move in moves:
        if isinstance(move, int):
            model.publish(publish(home, move))
        elif not model.roll_back():
            with pytest.raises(UsageError):
                snapshots_at(home).roll_back()
        else:
            snapshots_at(home).roll_back()
        snapshot = snapshots_at(home).current()
        assert (snapshot.id if snapshot else None) == model.served
        assert snapshots_at(home).history() == model.line


# Collecting


def test_only_the_latest_are_kept_and_never_is_the_served_one_removed(tmp_path: Path) -> None:
    names = [publish(tmp_path, number) for number in range(8)]
    assert folders(tmp_path) == set(names[-KEEP:])
    assert served(tmp_path) == names[-1]


def test_what_killed_publishers_left_is_swept(tmp_path: Path) -> None:
    publish(tmp_path, 1)
    left = tmp_path / "published" / ".tmp-0123456789abcdef"
    left.mkdir()
    (left / "half").write_text("written")
    publish(tmp_path, 2)
    assert not left.exists()


def test_a_snapshot_that_was_built_but_never_served_is_collected(tmp_path: Path) -> None:
    publish(tmp_path, 1)
    warehouse = Warehouse(tmp_path / "warehouse")
    never = snapshots_at(tmp_path).build(warehouse, records_of(warehouse, 9), SEARCH).id
    assert never in folders(tmp_path)
    publish(tmp_path, 2)
    assert never not in folders(tmp_path)


def test_a_reader_whose_snapshot_was_collected_finds_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held up between reading the pointer and opening what it names."""
    publish(tmp_path, 0)
    reader = snapshots_at(tmp_path)
    original = snapshots_module.Snapshot.open
    held_up = []

    def late(folder: Path) -> snapshots_module.Snapshot:
        if not held_up:
            held_up.append(folder)
            monkeypatch.setattr(snapshots_module.Snapshot, "open", original)
            for number in range(1, 6):
                publish(tmp_path, number)
        return original(folder)

    monkeypatch.setattr(snapshots_module.Snapshot, "open", late)
    snapshot = reader.current()
    assert not held_up[0].exists()
    assert snapshot is not None
    assert numbers_in(snapshot) == {5}


def test_the_manifest_refuses_another_contract(tmp_path: Path) -> None:
    name = publish(tmp_path, 1)
    body = json.loads((tmp_path / "published" / name / MANIFEST).read_text())
    text = Manifest.from_json(json.dumps(body)).to_json()
    assert json.loads(text) == body
    with pytest.raises(ValueError, match="digest"):
        Manifest.from_json(json.dumps({**body, "contract": 2}))
