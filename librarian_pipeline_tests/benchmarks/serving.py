"""The tool `search_podcast`, from its arguments to text and structure, against the floor of each mode.

The floor: embedding the query and one product of the matrix with it, and the scores of the postings; of those of the mode.
Each query is asked once by either, in turns; p50 and p99 are over the queries. The vectors are random, the model is the
packaged one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from librarian_pipeline.retrieval.bm25 import Bm25Index
from librarian_pipeline.retrieval.citations import COLUMNS, Citer
from librarian_pipeline.retrieval.dense import VectorIndex
from librarian_pipeline.retrieval.embedders import Embedder, load_embedder
from librarian_pipeline.retrieval.embedders.interface import unit_rows
from librarian_pipeline.retrieval.indexing import build_raw_index, build_stem_index
from librarian_pipeline.retrieval.modes import MODES, Searcher
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.serving.kept import KeptTables
from librarian_pipeline.serving.library import Library
from librarian_pipeline.serving.mcp.tools import Tools
from librarian_pipeline.settings import Bm25Settings, EmbeddingSettings, FusionSettings, Mode, ServingSettings
from librarian_pipeline.storage.schemas import CHUNKS
from librarian_pipeline.storage.snapshot import Snapshot
from librarian_pipeline.text.lemmas import Normalizer
from librarian_pipeline.text.tokens import raw_tokens
from librarian_pipeline_tests.benchmarks.dense import _table
from librarian_pipeline_tests.benchmarks.measuring import Line, timed

NAME = "serving"
SIZES = (600, 50_000)
QUERIES = 100
QUERY = "who said what about {} and {} and why did they come to the {} at night before it was {} again"
"""English enough for a model that reads English questions twice. The words in it are the archive's."""
QUERY_WORDS = QUERY.count("{}")
VOCABULARY = 30_000
PER_EPISODE = 75
SEGMENTS, SEGMENT_WORDS = 8, 10
"""Of a passage, and of each of its segments."""
SEGMENT_MS = 5_000
SEED = 22
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


def run(quick: bool) -> list[Line]:
    embedder = load_embedder(EmbeddingSettings())
    embedder.embed_query("the first takes longer")
    sizes = SIZES[:1] if quick else SIZES
    return [line for n in sizes for line in _measure(n, embedder, 10 if quick else QUERIES)]


@dataclass(frozen=True)
class _Archive:
    tools: Tools
    floors: dict[str, Callable[[str], object]]


def _measure(n: int, embedder: Embedder, n_queries: int) -> list[Line]:
    generator = np.random.default_rng(SEED)
    archive = _archive(generator, n, embedder)
    lines = []
    for mode in MODES:
        # Queries of its own: what another mode embedded is remembered.
        rows = _ranks(generator, (n_queries, QUERY_WORDS)).tolist()
        queries = [QUERY.format(*(_word(rank) for rank in row)) for row in rows]
        lines.extend(_lines(f"{mode}, {n:,} passages", archive, cast(Mode, mode), queries))
    return lines


def _lines(case: str, archive: _Archive, mode: Mode, queries: list[str]) -> list[Line]:
    ours_s, floor_s = [], []
    for number, query in enumerate(queries):
        turns: list[tuple[Callable[[], object], list[float]]] = [
            (lambda query=query: archive.tools.search_podcast(query, 5, mode), ours_s),  # type: ignore[misc]
            (lambda query=query: archive.floors[mode](query), floor_s),  # type: ignore[misc]
        ]
        for function, seconds in turns if number % 2 == 0 else reversed(turns):
            seconds.append(timed(function)[0])
    name = "search_podcast against the mode's floor"
    ours_ms, floor_ms = (float(np.percentile(seconds, 99)) * 1_000 for seconds in (ours_s, floor_s))
    ratio = ours_ms / floor_ms
    p99 = Line(name, f"{case}, p99", ours_ms, floor_ms, ratio, ratio, ratio, len(queries))
    return [Line.of(name, f"{case}, p50", ours_s, floor_s), p99]


def _archive(generator: np.random.Generator, n: int, embedder: Embedder) -> _Archive:
    ranks = _ranks(generator, (n, SEGMENTS, SEGMENT_WORDS))
    vocabulary = np.array([_word(rank) for rank in range(VOCABULARY)], dtype=object)
    chunks, terms = _chunks(vocabulary, ranks), Normalizer("simplemma")
    raw, stem = build_raw_index(chunks, Bm25Settings()), build_stem_index(chunks, terms, Bm25Settings())
    raw_index, stem_index = Bm25Index(raw), Bm25Index(stem)
    vectors = unit_rows(generator.standard_normal((n, embedder.dimensions)).astype(np.float32))
    ids = pa.array(sorted(chunks.column("chunk_id").to_pylist()))
    vector_index = VectorIndex(_table(vectors).set_column(0, "chunk_id", ids))
    searcher = Searcher(
        chunks=chunks,
        raw_index=raw_index,
        stem_index=stem_index,
        vector_index=vector_index,
        normalizer=terms,
        load_embedder=lambda: embedder,
        fusion=FusionSettings(),
        default_mode="hybrid_cc",
    )
    transcripts = KeptTables("transcripts", _transcripts(vocabulary, ranks))
    edition = Edition(cast(Snapshot, _Named()), searcher, Citer(transcripts, searcher), {})

    def dense(query: str) -> object:
        return vectors @ embedder.embed_query(query)

    def postings(query: str) -> object:
        return stem_index.scores(terms.terms(query, "en"))

    def both(query: str) -> object:
        return dense(query), postings(query)

    floors = {"bm25_raw": lambda query: raw_index.scores(raw_tokens(query)), "bm25_stem": postings, "dense": dense}
    return _Archive(
        Tools(lambda: cast(Library, _One(edition)), ServingSettings()), {**floors, "hybrid": both, "hybrid_cc": both}
    )


class _Named:
    id = "0" * 16


@dataclass(frozen=True)
class _One:
    """Stands in for the library: what it adds, a look at the pointer, is measured with nothing published."""

    edition: Edition

    def carry_out(self, request: Callable[[Edition], Any]) -> Any:
        return request(self.edition)


def _ranks(generator: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Words by Zipf's law: the word of rank r comes up in proportion to 1/r."""
    weights = 1 / np.arange(1, VOCABULARY + 1)
    return generator.choice(VOCABULARY, size=shape, p=weights / weights.sum())


def _word(rank: int) -> str:
    """Two syllables for the most frequent, three for the rest."""
    first, rest = rank % len(SYLLABLES), rank // len(SYLLABLES)
    second, third = rest % len(SYLLABLES), rest // len(SYLLABLES)
    return SYLLABLES[first] + SYLLABLES[second] + (SYLLABLES[third] if third else "")


def _chunks(vocabulary: npt.NDArray[Any], ranks: npt.NDArray[np.int64]) -> pa.Table:
    rows = []
    for number, words in enumerate(vocabulary[ranks].reshape(len(ranks), -1).tolist()):
        episode, idx = divmod(number, PER_EPISODE)
        first = idx * SEGMENTS
        rows.append(
            {
                **dict.fromkeys(CHUNKS.names),
                "chunk_id": f"ep{episode:04d}:t{idx:03d}",
                "episode_id": f"ep{episode:04d}",
                "layer": "transcript",
                "start_ms": first * SEGMENT_MS,
                "end_ms": (first + SEGMENTS) * SEGMENT_MS,
                "text": " ".join(words),
                "language": "en",
                "first_segment": first,
                "last_segment": first + SEGMENTS - 1,
            }
        )
    return pa.Table.from_pylist(rows, schema=CHUNKS)


def _transcripts(vocabulary: npt.NDArray[Any], ranks: npt.NDArray[np.int64]) -> dict[str, bytes]:
    """Of each episode, with the time of every word, as the warehouse writes them."""
    found = {}
    for episode, start in enumerate(range(0, len(ranks), PER_EPISODE)):
        words = vocabulary[ranks[start : start + PER_EPISODE]].reshape(-1, SEGMENT_WORDS)
        n = len(words)
        starts = np.arange(n) * SEGMENT_MS
        spoken = np.repeat(starts, SEGMENT_WORDS) + np.tile(np.arange(SEGMENT_WORDS) * 500, n)
        timed_words = {"word": words.ravel().tolist(), "start_ms": spoken, "end_ms": spoken + 400}
        kind = COLUMNS.field("words").type
        fields = [pa.array(timed_words.get(field.name, np.full(spoken.size, 0.9)), field.type) for field in kind.value_type]
        structs = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
        columns = {
            "segment_idx": np.arange(n),
            "start_ms": starts,
            "end_ms": starts + SEGMENT_MS,
            "text": [" ".join(row) for row in words.tolist()],
            "language": ["en"] * n,
            "words": pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * SEGMENT_WORDS, structs, type=kind),
            "excluded": [False] * n,
        }
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(columns, schema=COLUMNS), sink, compression="zstd")
        found[f"ep{episode:04d}"] = sink.getvalue().to_pybytes()
    return found
