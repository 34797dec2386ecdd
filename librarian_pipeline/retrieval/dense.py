"""The vector index: exact similarity, passage by passage."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class VectorIndex:
    """Vectors in memory, shape (n, dimensions), float32; row `i` belongs to `chunk_ids[i]`."""

    def __init__(self, table: pa.Table) -> None:
        self.chunk_ids: list[str] = table.column("chunk_id").to_pylist()
        self.vectors = vectors_of(table)

    def scores(self, query: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The inner product of every passage with a query's vector of shape (dimensions,): of unit vectors, the cosine.

        `vecdot` rather than `@`, whose last bits depend on where a row stands: equal passages would not tie.
        """
        scores: npt.NDArray[np.float32] = np.vecdot(self.vectors, query)
        return scores

    def cosines(self, query: npt.NDArray[np.float32], first: int | None = None) -> npt.NDArray[np.float32]:
        """The cosine of every passage with a query, by all values of the vectors or the first so many; 0 with zeros."""
        vectors, vector = self.vectors[:, :first], query[:first]
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
        cosines: npt.NDArray[np.float32] = np.vecdot(vectors, vector) / np.where(lengths == 0, 1, lengths)
        return cosines


def vectors_of(table: pa.Table) -> npt.NDArray[np.float32]:
    """The `embedding` column as an array of shape (n, dimensions)."""
    column = table.column("embedding").combine_chunks()
    flat: npt.NDArray[np.float32] = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), dimensions_of(table))


def dimensions_of(table: pa.Table) -> int:
    """How many values each vector of the `embedding` column has."""
    return int(table.schema.field("embedding").type.list_size)
