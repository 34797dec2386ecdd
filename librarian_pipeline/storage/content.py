"""A table's content as one hash: equal rows give an equal hash, however and whenever the table was made."""

import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def content_hash(table: pa.Table) -> str:
    """sha256 (hex) over column names, types and values, in row order; independent of buffers, chunks and file format."""
    digest = hashlib.sha256()
    for field in table.schema:
        column = table.column(field.name).combine_chunks()
        digest.update(f"{field.name}:{_type_name(field.type)}:{len(column)}\n".encode())
        _update(digest, column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks))
    return digest.hexdigest()


def _type_name(kind: pa.DataType) -> str:
    """Without the name of a list's values, which Parquet changes."""
    if pa.types.is_fixed_size_list(kind):
        return f"list<{_type_name(kind.value_type)}>[{kind.list_size}]"
    if pa.types.is_list(kind):
        return f"list<{_type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_type_name(field.type)}' for field in kind)}>"
    return str(kind)


def _update(digest: "hashlib._Hash", column: pa.Array) -> None:
    """Fast paths for the columns that grow large; JSON for the rest."""
    if pa.types.is_fixed_size_list(column.type) and column.null_count == 0:
        _update(digest, column.flatten())
    elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        digest.update(np.ascontiguousarray(pc.is_valid(column).to_numpy(zero_copy_only=False)).tobytes())
        digest.update(np.ascontiguousarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False)).tobytes())
    elif pa.types.is_string(column.type):
        digest.update(pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False).tobytes())
        digest.update("".join(text for text in column.to_pylist() if text is not None).encode())
    else:
        digest.update(json.dumps(column.to_pylist(), ensure_ascii=False).encode())
