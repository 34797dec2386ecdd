from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from librarian_pipeline.errors import ModelNotFoundError, UsageError
from librarian_pipeline.retrieval.embedders import load_embedder
from librarian_pipeline.retrieval.indexing import build_vector_index, embed_passages, index_model, load_searcher
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.settings import EmbeddingSettings, FusionSettings, NormalizerSettings, Settings
from librarian_pipeline.storage.schemas import CHUNKS
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline_tests.retrieval.samples import (
    chunks_of,
    passage,
    section,
    segment,
    warehouse_at,
    write_episode,
    write_indexes,
)

FALLBACK = EmbeddingSettings(model="char-ngram")
SETTINGS = Settings(embeddings=FALLBACK)
SPOKEN = [segment(0, 0, 5_000, "Kettles whistle in every kitchen."), segment(1, 5_000, 9_000, "Moths like old jumpers.")]
WRITTEN = [section(0, "Vedlejší poznámky", "Konvice na kamnech pískala.", language="cs")]


def built(folder: Path, settings: Settings = SETTINGS, sections: Sequence[dict[str, Any]] = WRITTEN) -> Warehouse:
    """Two episodes and their indexes."""
    warehouse = warehouse_at(folder)
    write_episode(warehouse, "ep01", settings, SPOKEN)
    write_episode(warehouse, "ep02", settings, sections=sections)
    write_indexes(warehouse, ["ep01", "ep02"], settings)
    return warehouse


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_searches_what_was_stored(tmp_path: Path, mode: str) -> None:
    (best, *_) = load_searcher(built(tmp_path), SETTINGS).search("kettles in the kitchen", mode)
    assert (best.passage.chunk_id, best.passage.text) == (
        "ep01:t000",
        "Kettles whistle in every kitchen. Moths like old jumpers.",
    )


def test_a_passage_is_lemmatised_in_its_own_language(tmp_path: Path) -> None:
    hits = load_searcher(built(tmp_path), SETTINGS).search("konvici", "bm25_stem")
    assert [hit.passage.chunk_id for hit in hits] == ["ep02:n000"]


@pytest.mark.parametrize("missing", ["bm25_raw_index", "bm25_stem_index", "vector_index", "bm25_stem_corpus", "warehouse"])
def test_without_an_index_the_error_says_how_to_make_one(tmp_path: Path, missing: str) -> None:
    warehouse = built(tmp_path)
    for path in warehouse.root.glob("*/*" if missing == "warehouse" else f"{missing}/*"):
        path.unlink()
    with pytest.raises(UsageError, match=f"there is no index yet: run `librarian run --home {tmp_path}`"):
        load_searcher(warehouse, SETTINGS)


def test_passages_that_went_after_they_were_indexed_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    warehouse = built(tmp_path)
    write_episode(warehouse, "ep02", SETTINGS)
    with pytest.raises(UsageError, match=r"changed since they were indexed: run `librarian run"):
        load_searcher(warehouse, SETTINGS)


def test_the_normaliser_of_the_index_is_used_whatever_the_settings_say_now(tmp_path: Path) -> None:
    searcher = load_searcher(built(tmp_path), Settings(embeddings=FALLBACK, normalizer=NormalizerSettings(name="none")))
    assert searcher.normalizer.name == "simplemma"


def test_the_model_of_the_index_is_used_whatever_the_settings_say_now(tmp_path: Path) -> None:
    assert index_model(built(tmp_path), Settings()).model == "char-ngram"


def test_an_episode_embedded_by_another_model_since_does_not_change_the_model_of_the_index(tmp_path: Path) -> None:
    warehouse = built(tmp_path)
    vectors = warehouse.read("embeddings", "ep01")
    warehouse.write("embeddings", "ep01", vectors, recipe={"model": "all-MiniLM-L6-v2", "digest": "d"}, inputs={})
    assert index_model(warehouse, Settings()).model == "char-ngram"


def test_a_passage_whose_text_changed_under_the_same_id_makes_the_index_stale(tmp_path: Path) -> None:
    warehouse = built(tmp_path)
    chunks = warehouse.read("chunks", "ep01").to_pylist()
    chunks[0]["text"] = "Something else altogether."
    warehouse.write("chunks", "ep01", pa.Table.from_pylist(chunks, schema=CHUNKS), recipe={}, inputs={})
    with pytest.raises(UsageError, match="changed since they were indexed"):
        load_searcher(warehouse, SETTINGS)


def test_without_vectors_the_model_is_that_of_the_settings(tmp_path: Path) -> None:
    warehouse = warehouse_at(tmp_path)
    write_indexes(warehouse, [], SETTINGS)
    assert index_model(warehouse, Settings()).model == Settings().embeddings.model


def test_fusion_follows_the_settings_of_now(tmp_path: Path) -> None:
    settings = Settings(embeddings=FALLBACK, fusion=FusionSettings(c=1))
    (best, *_) = load_searcher(built(tmp_path), settings).search("kettles in the kitchen", "hybrid")
    assert best.score == 1 / 2 + 1 / 2


def test_other_weights_than_those_of_the_index_are_refused_by_the_first_query_that_needs_them(tmp_path: Path) -> None:
    warehouse = built(tmp_path)
    for episode in ("ep01", "ep02"):
        record = warehouse.committed("embeddings", episode)
        assert record is not None
        other = {**record.recipe, "digest": "0" * 64}
        warehouse.write("embeddings", episode, warehouse.read("embeddings", episode), recipe=other, inputs=record.inputs)
    write_indexes(warehouse, ["ep01", "ep02"], SETTINGS)
    with pytest.raises(ModelNotFoundError, match="not those that the index was built with: run `librarian run`"):
        load_searcher(warehouse, SETTINGS).search("kettles", "dense")


def test_an_archive_without_passages_has_an_index_without_hits(tmp_path: Path) -> None:
    warehouse = warehouse_at(tmp_path)
    write_episode(warehouse, "ep01", SETTINGS)
    write_indexes(warehouse, ["ep01"], SETTINGS)
    assert load_searcher(warehouse, SETTINGS).search("anything") == []


def test_the_vectors_of_an_archive_are_in_the_order_of_their_ids(tmp_path: Path) -> None:
    table = build_vector_index(built(tmp_path), ["ep02", "ep01"]).vectors
    assert table.column("chunk_id").to_pylist() == ["ep01:t000", "ep02:n000"]


def test_each_vector_stays_with_its_passage(tmp_path: Path) -> None:
    warehouse = built(tmp_path)
    by_id = {
        row["chunk_id"]: row["embedding"] for row in build_vector_index(warehouse, ["ep02", "ep01"]).vectors.to_pylist()
    }
    chunks = warehouse.read_all("chunks", ["ep01", "ep02"], CHUNKS)
    again = embed_passages(chunks, load_embedder(FALLBACK), "char-ngram").to_pylist()
    assert by_id == {row["chunk_id"]: row["embedding"] for row in again}


def test_vectors_of_two_models_are_not_mixed(tmp_path: Path) -> None:
    warehouse = built(tmp_path)
    table = embed_passages(chunks_of(passage("ep03:n000", "Text.")), load_embedder(FALLBACK), "another")
    warehouse.write("embeddings", "ep03", table, recipe={"model": "another", "digest": "d"}, inputs={})
    with pytest.raises(UsageError, match=r"several models, or versions of one \(another, char-ngram\): run `librarian run`"):
        build_vector_index(warehouse, ["ep01", "ep03"])


def test_an_archive_without_episodes_has_an_empty_vector_index(tmp_path: Path) -> None:
    assert build_vector_index(warehouse_at(tmp_path), []).vectors.num_rows == 0


def test_passages_are_embedded_in_the_order_of_their_ids() -> None:
    chunks = chunks_of(passage("b:n000", "Bees."), passage("a:n000", "Ants."))
    assert embed_passages(chunks, load_embedder(FALLBACK), "m").column("chunk_id").to_pylist() == ["a:n000", "b:n000"]


def test_the_heading_is_embedded_with_the_text() -> None:
    with_heading, without = (
        embed_passages(chunks_of(passage("a:n000", "Text.", heading=heading)), load_embedder(FALLBACK), "m")
        for heading in ("Zeppelins", None)
    )
    assert not np.array_equal(*(table.column("embedding").to_pylist() for table in (with_heading, without)))


def test_no_passages_give_an_empty_table_of_the_models_dimensions() -> None:
    table = embed_passages(chunks_of(), load_embedder(FALLBACK), "m")
    assert (table.num_rows, table.schema.field("embedding").type.list_size) == (0, 512)
