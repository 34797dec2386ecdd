import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from librarian_pipeline.storage.content import content_hash

SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("count", pa.int64()),
        ("score", pa.float64()),
        ("yes", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("words", pa.list_(pa.struct([("word", pa.string()), ("start_ms", pa.int64())]))),
        ("vector", pa.list_(pa.float32(), 3)),
    ]
)
WORD = st.fixed_dictionaries({"word": st.none() | st.text(max_size=3), "start_ms": st.none() | st.integers(-5, 5)})
ROW = st.fixed_dictionaries(
    {
        "text": st.none() | st.text(max_size=4),
        "count": st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 1),
        "score": st.none() | st.floats(allow_nan=False).filter(lambda x: str(x) != "-0.0"),
        "yes": st.none() | st.booleans(),
        "tags": st.none() | st.lists(st.none() | st.text(max_size=2), max_size=3),
        "words": st.none() | st.lists(st.none() | WORD, max_size=2),
        "vector": st.none() | st.lists(st.sampled_from([0.0, 0.5, -1.0]), min_size=3, max_size=3),
    }
)
ROWS = st.lists(ROW, max_size=6)


def table_of(rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def through_parquet(table: pa.Table) -> pa.Table:
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd")
    return pq.read_table(io.BytesIO(file.getvalue()))


@given(ROWS)
def test_a_parquet_round_trip_keeps_the_hash(rows):
    assert content_hash(through_parquet(table_of(rows))) == content_hash(table_of(rows))


@given(ROWS, ROWS)
def test_the_hash_does_not_depend_on_how_the_rows_are_chunked(first, second):
    chunked = pa.concat_tables([table_of(first), table_of([]), table_of(second)])
    assert content_hash(chunked) == content_hash(table_of([*first, *second]))


@given(ROWS, ROWS, ROWS)
def test_a_slice_has_the_hash_of_its_own_rows(before, rows, after):
    sliced = table_of([*before, *rows, *after]).slice(len(before), len(rows))
    assert content_hash(sliced) == content_hash(table_of(rows))


@given(ROWS, ROWS)
def test_different_rows_have_different_hashes(one, other):
    assume(json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))
    assert content_hash(table_of(one)) != content_hash(table_of(other))


@given(st.lists(st.lists(st.none() | st.sampled_from(["", "a", "aa"]), max_size=3), min_size=2, max_size=2, unique_by=tuple))
def test_the_same_letters_in_other_cells_are_other_content(columns):
    one, other = (pa.table({"text": pa.array(column, pa.string())}) for column in columns)
    assert content_hash(one) != content_hash(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([0, 1]), pa.array([None, 1], pa.int64())),
        (pa.array([0.0]), pa.array([None], pa.float64())),
        (pa.array([""]), pa.array([None], pa.string())),
        (pa.array([[0.0, 0.0]], pa.list_(pa.float32(), 2)), pa.array([None], pa.list_(pa.float32(), 2))),
        (pa.array([[0.0, 1.0]], pa.list_(pa.float32(), 2)), pa.array([[None, 1.0]], pa.list_(pa.float32(), 2))),
        (pa.array([1], pa.int64()), pa.array([1], pa.int32())),
        (pa.array([], pa.int64()), pa.array([], pa.string())),
        (pa.array([1, 2]), pa.array([2, 1])),
    ],
    ids=["int null", "float null", "text null", "vector null", "null in vector", "type", "type of no rows", "order"],
)
def test_columns_that_look_alike_but_are_not_equal_differ(one, other):
    assert content_hash(pa.table({"x": one})) != content_hash(pa.table({"x": other}))


def test_the_names_of_columns_are_content():
    assert content_hash(pa.table({"a": [1]})) != content_hash(pa.table({"b": [1]}))


def test_metadata_of_the_schema_is_not_content():
    table = table_of([])
    assert content_hash(table.replace_schema_metadata({"when": "now"})) == content_hash(table)


def test_a_table_of_no_chunks_is_the_empty_table():
    bare = pa.Table.from_batches([], schema=SCHEMA)
    assert content_hash(bare) == content_hash(table_of([]))
