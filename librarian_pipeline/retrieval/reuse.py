"""Embeddings are dear, and depend on nothing but the model and the text: each is worked out once.

The cache is an SQLite database, which several processes may write at once. It can be deleted at any time.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from librarian_pipeline.retrieval.embedders import Embedder, embedder_recipe, load_embedder, query_recipe
from librarian_pipeline.retrieval.embedders.interface import OnProgress, Vectors
from librarian_pipeline.settings import EmbeddingSettings
from librarian_pipeline.storage.provenance import fingerprint

DATABASE = "embeddings.sqlite"
PATIENCE_S = 60.0
Result = TypeVar("Result")
QUERY_VARIABLES = 500
"""How many texts are asked for at once: SQLite bounds the variables of a statement."""
SAVE_EVERY = 64
"""Texts between two commits: what a killed process loses at most."""

_TABLES = """
CREATE TABLE IF NOT EXISTS models (recipe TEXT PRIMARY KEY, dimensions INTEGER NOT NULL, max_tokens INTEGER);
CREATE TABLE IF NOT EXISTS vectors (
    recipe TEXT NOT NULL, text_sha256 TEXT NOT NULL, vector BLOB NOT NULL, n_tokens INTEGER,
    PRIMARY KEY (recipe, text_sha256)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Embedded:
    """What is kept of a text: its vector, and how many tokens the model made of it (None if it doesn't count any)."""

    vector: bytes
    n_tokens: int | None


class EmbeddingCache:
    """Vectors by the recipe of the model and the SHA-256 of the text. A damaged database is put aside."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._do(lambda connection: None)

    def shape(self, recipe: str) -> tuple[int, int | None] | None:
        """Dimensions and maximal tokens of a model whose vectors are here."""
        query = "SELECT dimensions, max_tokens FROM models WHERE recipe = ?"
        row = self._do(lambda connection: connection.execute(query, [recipe]).fetchone())
        return None if row is None else (row[0], row[1])

    def get(self, recipe: str, hashes: Sequence[str]) -> dict[str, Embedded]:
        """Those of the texts that are known, by their hash."""

        def look_up(connection: sqlite3.Connection) -> dict[str, Embedded]:
            found: dict[str, Embedded] = {}
            for asked in _parts(hashes, QUERY_VARIABLES):
                marks = ", ".join("?" * len(asked))
                query = f"SELECT text_sha256, vector, n_tokens FROM vectors WHERE recipe = ? AND text_sha256 IN ({marks})"
                found.update({sha: Embedded(vector, n) for sha, vector, n in connection.execute(query, [recipe, *asked])})
            return found

        return self._do(look_up)

    def put(self, recipe: str, shape: tuple[int, int | None], rows: dict[str, Embedded]) -> None:
        values = [(recipe, sha, row.vector, row.n_tokens) for sha, row in rows.items()]

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO models VALUES (?, ?, ?)", [recipe, *shape])
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", values)

        self._do(write)

    def _do(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Does the work in one transaction; after a database that proves damaged, once more in a new one."""
        try:
            return self._in_transaction(work)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # busy, or a disk that is full: no damage
                raise
        for suffix in ("", "-wal", "-shm"):
            path = self._path.with_name(self._path.name + suffix)
            if path.exists():
                path.replace(path.with_name(f"{path.name}.damaged"))
        return self._in_transaction(work)

    def _in_transaction(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with closing(sqlite3.connect(self._path, timeout=PATIENCE_S)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_TABLES)
            with connection:
                return work(connection)


class ReusingEmbedder:
    """An embedder that asks the cache first. The model is loaded once a text is met that isn't there.

    `n_embedded` and `n_reused` count the texts so far. Without `reuse` every text is embedded anew, and kept.
    """

    def __init__(
        self,
        recipe: str,
        load: Callable[[], Embedder],
        cache: EmbeddingCache,
        *,
        query_recipe: str = "",
        reuse: bool = True,
    ) -> None:
        """`recipe` is what can change a passage's vector, `query_recipe` what besides can change a query's."""
        self._recipe = recipe
        self._query_recipe = query_recipe
        self._load = load
        self._cache = cache
        self._reuse = reuse
        self._tokens: dict[str, int | None] = {}
        known = cache.shape(recipe) if reuse else None
        self.dimensions, self.max_tokens = known or self._shape_of_model()
        self.n_embedded = 0
        self.n_reused = 0

    def _shape_of_model(self) -> tuple[int, int | None]:
        model = self._load()
        return model.dimensions, model.max_tokens

    def embed_passages(self, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
        hashes = [_sha256(text) for text in texts]
        known = {sha: found for sha, found in self._kept(hashes).items() if len(found.vector) == 4 * self.dimensions}
        missing = {sha: text for sha, text in zip(hashes, texts, strict=True) if sha not in known}
        self.n_reused += sum(sha in known for sha in hashes)
        self.n_embedded += len(missing)
        done = len(texts) - len(missing)
        for part in _parts(list(missing), SAVE_EVERY):
            fresh = self._embed({sha: missing[sha] for sha in part})
            self._cache.put(self._recipe, (self.dimensions, self.max_tokens), fresh)
            known.update(fresh)
            done += len(part)
            if on_progress:
                on_progress(done, len(texts))
        self._tokens.update({sha: known[sha].n_tokens for sha in hashes})
        rows = [np.frombuffer(known[sha].vector, dtype=np.float32) for sha in hashes]
        return np.vstack(rows) if rows else np.zeros((0, self.dimensions), dtype=np.float32)

    def _kept(self, hashes: Sequence[str]) -> dict[str, Embedded]:
        return self._cache.get(self._recipe, hashes) if self._reuse else {}

    def _embed(self, texts: dict[str, str]) -> dict[str, Embedded]:
        model = self._load()
        vectors = model.embed_passages(list(texts.values()))
        return {
            sha: Embedded(vector.astype(np.float32).tobytes(), model.count_tokens(text))
            for (sha, text), vector in zip(texts.items(), vectors, strict=True)
        }

    def embed_query(self, text: str) -> Vectors:
        sha = _sha256(f"query {self._query_recipe}\n{text}")
        known = self._kept([sha]).get(sha)
        if known is not None and len(known.vector) == 4 * self.dimensions:
            return np.frombuffer(known.vector, dtype=np.float32)
        vector = self._load().embed_query(text).astype(np.float32)
        self._cache.put(self._recipe, (self.dimensions, self.max_tokens), {sha: Embedded(vector.tobytes(), None)})
        return vector

    def count_tokens(self, passage: str) -> int | None:
        sha = _sha256(passage)
        return self._tokens[sha] if sha in self._tokens else self._load().count_tokens(passage)


def embedder_of(settings: EmbeddingSettings, cache_dir: Path, *, reuse: bool = True) -> ReusingEmbedder:
    """The model of the settings, over the cache in `cache_dir`. Raises like `embedders.embedder_card`."""
    return ReusingEmbedder(
        fingerprint(embedder_recipe(settings)),
        lambda: _loaded(settings),
        EmbeddingCache(cache_dir / DATABASE),
        query_recipe=fingerprint(query_recipe(settings)),
        reuse=reuse,
    )


@lru_cache(maxsize=1)
def _loaded(settings: EmbeddingSettings) -> Embedder:
    """The model stays loaded from one episode of a run to the next."""
    return load_embedder(settings)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _parts(values: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
