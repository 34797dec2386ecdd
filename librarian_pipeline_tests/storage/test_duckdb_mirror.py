import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from librarian_pipeline.lineage.graph import EPISODE_ASSETS
from librarian_pipeline.storage import duckdb_mirror, schemas
from librarian_pipeline.storage.duckdb_mirror import DATABASE, MirrorBusyError, is_current, refresh, refresh_partitions
from librarian_pipeline.storage.warehouse import Warehouse

EPISODES = ("ep01", "all", "a.b", "x-1")
SAMPLE_VALUES: dict[str, Any] = {
    "string": "Příliš 'žluťoučký'",
    "int64": 2**53 + 1,
    "double": math.pi,
    "bool": True,
}
ONE_FILE_TABLES = {
    "vector_index": schemas.embeddings_schema(3),
    "bm25_raw_index": schemas.POSTINGS,
    "bm25_raw_documents": schemas.BM25_DOCUMENTS,
    "bm25_raw_corpus": schemas.BM25_CORPUS,
    "gold_set": schemas.GOLD_SET,
    "rankings": schemas.RANKINGS,
    "jump_ins": schemas.JUMP_INS,
    "qrels": schemas.QRELS,
    "detectable": schemas.DETECTABLE,
    "eval_scores": schemas.EVAL_SCORES,
    "gates": schemas.GATES,
    "episodes": schemas.EPISODES,
}
EPISODE_TABLES = {
    "audio": schemas.AUDIO,
    "notes": schemas.NOTES,
    "transcripts": schemas.TRANSCRIPTS,
    "chunks": schemas.CHUNKS,
    "embeddings": schemas.embeddings_schema(3),
}


def value_of(kind: pa.DataType) -> Any:
    if pa.types.is_fixed_size_list(kind):
        return [0.5] * kind.list_size
    if pa.types.is_list(kind):
        return [value_of(kind.value_type), value_of(kind.value_type)]
    if pa.types.is_struct(kind):
        return {field.name: value_of(field.type) for field in kind}
    return SAMPLE_VALUES[str(kind)]


def rows_for(schema: pa.Schema, episode: str | None) -> pa.Table:
    """A row with a value in every column, and one with nothing but what says whose it is."""
    whose = {"episode_id": episode or "ep01", "chunk_id": f"{episode or 'ep01'}:t000"}
    full = {field.name: whose.get(field.name, value_of(field.type)) for field in schema}
    bare = {name: value for name, value in whose.items() if name in schema.names}
    return pa.Table.from_pylist([full, bare], schema=schema)


def put(warehouse: Warehouse, table: str, partition: str | None, rows: pa.Table) -> None:
    warehouse.write(table, partition, rows, recipe={}, inputs={})


def passages(episode: str, *texts: str) -> pa.Table:
    rows = [{"chunk_id": f"{episode}:t{n:03d}", "episode_id": episode, "text": text} for n, text in enumerate(texts)]
    return pa.Table.from_pylist(rows, schema=schemas.CHUNKS)


def vectors(episode: str, dimensions: int) -> pa.Table:
    row = {"chunk_id": f"{episode}:t000", "embedding": [1.0] * dimensions, "model": f"m{dimensions}"}
    return pa.Table.from_pylist([row], schema=schemas.embeddings_schema(dimensions))


def query(warehouse: Warehouse, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(warehouse.root / DATABASE) as connection:
        return connection.execute(sql).fetchall()


def texts_in(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    return query(warehouse, "SELECT episode_id, text FROM chunks ORDER BY chunk_id")


@pytest.fixture
def holder(warehouse: Warehouse) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the database open, until its input is closed."""
    put(warehouse, "chunks", "ep01", passages("ep01", "old"))
    refresh(warehouse)
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1], read_only=True); print('open', flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(warehouse.root / DATABASE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    if process.poll() is None:
        process.communicate("\n")


def test_the_tables_that_have_partitions_are_those_that_are_derived_by_episode_and_what_is_beside_them():
    assert set(duckdb_mirror.PARTITION_EXPRESSIONS) == {*EPISODE_ASSETS, "speech_spans", "eval_history"}


def test_every_table_holds_the_rows_of_its_parquet_files(warehouse):
    expected: dict[str, list[dict[str, Any]]] = {}
    for table, schema in EPISODE_TABLES.items():
        for episode in EPISODES:
            put(warehouse, table, episode, rows_for(schema, episode))
            expected.setdefault(table, []).extend(rows_for(schema, episode).to_pylist())
    for table, schema in ONE_FILE_TABLES.items():
        put(warehouse, table, None, rows_for(schema, None))
        expected[table] = rows_for(schema, None).to_pylist()
    refresh(warehouse)
    with duckdb.connect(warehouse.root / DATABASE) as connection:
        found = {table: connection.table(table).to_arrow_table().to_pylist() for table in expected}
    assert {table: sorted(map(repr, rows)) for table, rows in found.items()} == {
        table: sorted(map(repr, rows)) for table, rows in expected.items()
    }


def test_a_changed_partition_replaces_its_own_rows_and_no_others(warehouse):
    for episode in EPISODES:
        put(warehouse, "chunks", episode, passages(episode, "old", "older"))
    refresh(warehouse)
    put(warehouse, "chunks", "all", passages("all", "new"))
    refresh(warehouse)
    others = sorted((episode, text) for episode in ("a.b", "ep01", "x-1") for text in ("old", "older"))
    assert sorted(texts_in(warehouse)) == sorted([("all", "new"), *others])


def test_a_changed_table_without_partitions_is_replaced_whole(warehouse):
    schema = schemas.EPISODES
    put(warehouse, "episodes", None, pa.Table.from_pylist([{"episode_id": "ep01"}, {"episode_id": "all"}], schema=schema))
    refresh(warehouse)
    put(warehouse, "episodes", None, pa.Table.from_pylist([{"episode_id": "ep02"}], schema=schema))
    refresh(warehouse)
    assert query(warehouse, "SELECT episode_id FROM episodes") == [("ep02",)]


@pytest.mark.parametrize("gone", EPISODES)
def test_the_rows_of_a_removed_partition_go_and_those_of_the_others_stay(warehouse, gone):
    for episode in EPISODES:
        put(warehouse, "chunks", episode, passages(episode, "text"))
        put(warehouse, "embeddings", episode, vectors(episode, 3))
    refresh(warehouse)
    for table in ("chunks", "embeddings"):
        warehouse.drop(table, gone)
    refresh(warehouse)
    left = sorted(f"{episode}:t000" for episode in EPISODES if episode != gone)
    for table in ("chunks", "embeddings"):
        assert query(warehouse, f"SELECT chunk_id FROM {table} ORDER BY 1") == [(name,) for name in left]


def test_a_partition_without_rows_is_mirrored_as_none(warehouse):
    put(warehouse, "chunks", "ep01", passages("ep01", "text"))
    refresh(warehouse)
    put(warehouse, "chunks", "ep01", passages("ep01"))
    refresh(warehouse)
    assert texts_in(warehouse) == []
    assert is_current(warehouse)


def test_only_the_tables_that_are_named_are_brought_up_to_date(warehouse):
    put(warehouse, "chunks", "ep01", passages("ep01", "text"))
    put(warehouse, "embeddings", "ep01", vectors("ep01", 3))
    refresh_partitions(warehouse, ["chunks"], "ep01")
    assert query(warehouse, "SELECT table_name FROM duckdb_tables() ORDER BY 1") == [("_mirrored",), ("chunks",)]
    assert not is_current(warehouse)


def test_while_vectors_of_two_sizes_stand_side_by_side_the_table_holds_those_of_the_size_written_last(warehouse):
    for episode in ("ep01", "ep02"):
        put(warehouse, "embeddings", episode, vectors(episode, 3))
    refresh(warehouse)
    put(warehouse, "embeddings", "ep01", vectors("ep01", 5))
    refresh(warehouse)
    assert query(warehouse, "SELECT chunk_id, len(embedding) FROM embeddings") == [("ep01:t000", 5)]


def test_once_every_episode_has_the_new_vectors_the_table_holds_them_all(warehouse):
    for dimensions in (3, 5):
        for episode in ("ep01", "ep02"):
            put(warehouse, "embeddings", episode, vectors(episode, dimensions))
            refresh(warehouse)
    assert query(warehouse, "SELECT chunk_id, len(embedding) FROM embeddings ORDER BY 1") == [
        ("ep01:t000", 5),
        ("ep02:t000", 5),
    ]


@pytest.mark.parametrize("damaged", ["ep01", "ep02"])
def test_a_damaged_parquet_file_is_left_out_and_the_others_are_mirrored(warehouse, damaged):
    for episode in ("ep01", "ep02"):
        put(warehouse, "chunks", episode, passages(episode, "text"))
    warehouse.path("chunks", damaged).write_bytes(b"PAR1")
    refresh(warehouse)
    assert texts_in(warehouse) == [("ep01" if damaged == "ep02" else "ep02", "text")]


@pytest.mark.parametrize("damage", ["text", "empty", "truncated", "cut in half", "flipped header", "flipped row"])
def test_a_damaged_database_is_made_anew_with_every_table(warehouse, damage):
    many = [f"{n} {n * n}" for n in range(3000)]
    put(warehouse, "chunks", "ep01", passages("ep01", *many))
    put(warehouse, "embeddings", "ep01", vectors("ep01", 3))
    refresh(warehouse)
    path = warehouse.root / DATABASE
    data = bytearray(path.read_bytes())
    row_at = data.rfind(b"2999 8994001")
    assert row_at > 0 or damage != "flipped row"
    data[{"flipped header": 100, "flipped row": row_at}.get(damage, 0)] ^= 0xFF if damage.startswith("flipped") else 0
    cut = {"text": b"not a database", "empty": b"", "truncated": data[:5000], "cut in half": data[: len(data) // 2]}
    path.write_bytes(cut.get(damage, bytes(data)))
    put(warehouse, "chunks", "ep01", passages("ep01", "new"))
    refresh_partitions(warehouse, ["chunks"], "ep01")
    assert texts_in(warehouse) == [("ep01", "new")]
    assert query(warehouse, "SELECT chunk_id FROM embeddings") == [("ep01:t000",)]


def test_a_folder_whose_name_holds_the_word_lock_does_not_make_damage_look_like_a_lock(tmp_path):
    warehouse = Warehouse(tmp_path / "clock")
    put(warehouse, "chunks", "ep01", passages("ep01", "text"))
    (warehouse.root / DATABASE).write_bytes(b"not a database")
    refresh(warehouse)
    assert texts_in(warehouse) == [("ep01", "text")]


def test_a_damaged_database_is_not_current(warehouse):
    put(warehouse, "chunks", "ep01", passages("ep01", "text"))
    refresh(warehouse)
    path = warehouse.root / DATABASE
    path.write_bytes(path.read_bytes()[:5000])
    assert not is_current(warehouse)


def test_the_log_of_a_damaged_database_is_not_replayed_into_the_new_one(warehouse):
    put(warehouse, "chunks", "ep01", passages("ep01", "text"))
    (warehouse.root / DATABASE).write_bytes(b"not a database")
    (warehouse.root / f"{DATABASE}.wal").write_bytes(b"\x00" * 100)
    refresh(warehouse)
    assert texts_in(warehouse) == [("ep01", "text")]


def test_a_database_that_another_process_holds_open_is_busy(warehouse, holder, monkeypatch):
    monkeypatch.setattr(duckdb_mirror, "CONNECT_PATIENCE_S", 0.3)
    put(warehouse, "chunks", "ep01", passages("ep01", "new"))
    with pytest.raises(MirrorBusyError, match=r"librarian\.duckdb is open in another program"):
        refresh(warehouse)
    with pytest.raises(MirrorBusyError):
        is_current(warehouse)


def test_the_next_refresh_catches_up_with_what_was_missed_while_the_database_was_held(warehouse, holder, monkeypatch):
    put(warehouse, "chunks", "ep01", passages("ep01", "new"))
    with pytest.raises(MirrorBusyError):
        refresh_partitions(warehouse, ["chunks"], "ep01")
    holder.communicate("\n")
    refresh(warehouse)
    assert texts_in(warehouse) == [("ep01", "new")]


def test_a_database_that_is_held_only_for_a_moment_is_waited_for(warehouse, holder):
    put(warehouse, "chunks", "ep01", passages("ep01", "new"))
    holder.stdin.write("\n")
    holder.stdin.flush()
    refresh(warehouse)
    assert texts_in(warehouse) == [("ep01", "new")]


def test_a_database_that_this_process_holds_read_only_is_busy_and_is_not_thrown_away(warehouse, monkeypatch):
    monkeypatch.setattr(duckdb_mirror, "CONNECT_PATIENCE_S", 0.1)
    put(warehouse, "chunks", "ep01", passages("ep01", "old"))
    refresh(warehouse)
    with duckdb.connect(warehouse.root / DATABASE, read_only=True):
        put(warehouse, "chunks", "ep01", passages("ep01", "new"))
        with pytest.raises(MirrorBusyError):
            refresh(warehouse)
        assert (warehouse.root / DATABASE).exists()


def test_a_mirror_is_current_until_a_parquet_file_changes(warehouse):
    put(warehouse, "chunks", "ep01", passages("ep01", "one"))
    assert not is_current(warehouse)
    refresh(warehouse)
    assert is_current(warehouse)
    put(warehouse, "chunks", "ep01", passages("ep01", "two"))
    assert not is_current(warehouse)


def test_a_mirror_is_not_current_once_a_partition_is_gone(warehouse):
    for episode in ("ep01", "ep02"):
        put(warehouse, "chunks", episode, passages(episode, "one"))
    refresh(warehouse)
    warehouse.drop("chunks", "ep02")
    assert not is_current(warehouse)


def test_a_rewrite_of_equal_rows_leaves_the_mirror_current(warehouse):
    for _ in range(2):
        put(warehouse, "chunks", "ep01", passages("ep01", "one"))
        refresh(warehouse)
    put(warehouse, "chunks", "ep01", passages("ep01", "one"))
    assert is_current(warehouse)


def test_a_database_of_somebody_elses_is_not_current(warehouse):
    put(warehouse, "chunks", "ep01", passages("ep01", "one"))
    with duckdb.connect(warehouse.root / DATABASE) as connection:
        connection.execute("CREATE TABLE other (n INT)")
    assert not is_current(warehouse)


def test_an_empty_warehouse_can_be_mirrored(tmp_path: Path):
    warehouse = Warehouse(tmp_path)
    refresh(warehouse)
    assert is_current(warehouse)


def test_the_rows_of_a_table_whose_folder_was_deleted_go_with_the_next_refresh(warehouse):
    put(warehouse, "chunks", "ep01", passages("ep01", "One."))
    refresh(warehouse)
    warehouse.path("chunks", "ep01").unlink()
    warehouse.path("chunks", "ep01").parent.rmdir()
    assert not is_current(warehouse)
    refresh(warehouse)
    assert texts_in(warehouse) == []
    assert is_current(warehouse)
