"""What Dagster's users see: the graph, and what each asset says of itself."""

import warnings
from pathlib import Path

import dagster as dg
import pytest

from librarian_pipeline.checks import GATES
from librarian_pipeline.definitions import definitions_for
from librarian_pipeline.lineage.graph import ASSETS, NODES
from librarian_pipeline.lineage.recipes import recipe
from librarian_pipeline.settings import Settings
from librarian_pipeline.storage.provenance import fingerprint

GRAPH = {
    "audio": [],
    "notes": [],
    "transcripts": ["audio"],
    "chunks": ["notes", "transcripts"],
    "embeddings": ["chunks"],
    "episodes": ["audio", "chunks", "embeddings", "notes", "transcripts"],
    "bm25_raw_index": ["chunks"],
    "bm25_stem_index": ["chunks"],
    "vector_index": ["embeddings"],
    "gold_set": [],
    "eval_scores": ["bm25_raw_index", "bm25_stem_index", "chunks", "gold_set", "transcripts", "vector_index"],
    "published_index": [
        "bm25_raw_index",
        "bm25_stem_index",
        "chunks",
        "episodes",
        "eval_scores",
        "gold_set",
        "transcripts",
        "vector_index",
    ],
}
PARTITIONED = {"audio", "notes", "transcripts", "chunks", "embeddings"}


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> dg.Definitions:
    return definitions_for(tmp_path_factory.mktemp("home"))


def _specs(definitions: dg.Definitions) -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in definitions.resolve_all_asset_specs()}


def test_the_graph_is_the_one_of_the_plan(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    found = {
        key.to_user_string(): sorted(parent.to_user_string() for parent in graph.get(key).parent_keys)
        for key in graph.get_all_asset_keys()
    }
    assert found == GRAPH


def test_the_planner_and_dagster_have_the_same_graph() -> None:
    assert {name: sorted(node.upstream) for name, node in NODES.items()} == GRAPH


def test_the_heavy_work_is_partitioned_by_episode(definitions: dg.Definitions) -> None:
    found = {name for name, spec in _specs(definitions).items() if spec.partitions_def is not None}
    assert found == PARTITIONED


@pytest.mark.parametrize("asset", sorted(GRAPH))
def test_each_asset_says_what_it_is(asset: str, definitions: dg.Definitions) -> None:
    spec = _specs(definitions)[asset]
    assert spec.description
    assert "\n" not in spec.description
    assert {"duckdb", "parquet"} <= spec.kinds
    assert spec.group_name == NODES[asset].group
    assert list(spec.owners) == ["team:librarians"]
    columns = spec.metadata["dagster/column_schema"].columns
    assert len(columns) >= 3


@pytest.mark.parametrize("asset", sorted(GRAPH))
def test_the_code_version_is_the_fingerprint_of_the_recipe(asset: str, definitions: dg.Definitions) -> None:
    assert _specs(definitions)[asset].code_version == fingerprint(recipe(asset, Settings()))


def test_loading_the_definitions_gives_no_warning_of_ours(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        definitions_for(tmp_path).resolve_asset_graph()
    assert [str(warning) for warning in caught if "librarian_pipeline" in warning.filename] == []


def test_the_graph_lists_each_asset_after_what_it_is_derived_from() -> None:
    seen: set[str] = set()
    for node in ASSETS:
        assert set(node.upstream) <= seen, node.name
        seen.add(node.name)


def test_wrong_times_and_invention_and_every_gate_block_what_is_downstream(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    blocking = {key.name for key in graph.asset_check_keys if graph.get_check_spec(key).blocking}
    assert blocking == {"times", "hallucination_rate", *GATES}
