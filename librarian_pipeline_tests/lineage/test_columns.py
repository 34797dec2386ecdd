"""Column lineage must name columns that exist, and only of what an asset is derived from."""

import pytest

from librarian_pipeline.lineage.columns import COLUMN_SOURCES
from librarian_pipeline.lineage.graph import ASSETS, NODES
from librarian_pipeline.storage.schemas import COLUMNS_OF


def columns(asset: str) -> set[str]:
    return set(COLUMNS_OF[asset][0].names)


@pytest.mark.parametrize("asset", [node.name for node in ASSETS])
def test_every_column_named_is_there(asset: str) -> None:
    assert set(COLUMN_SOURCES[asset]) <= columns(asset)
    for sources in COLUMN_SOURCES[asset].values():
        for upstream, column in sources:
            assert upstream in NODES[asset].upstream
            assert column in columns(upstream)


@pytest.mark.parametrize("asset", [node.name for node in ASSETS if node.upstream])
def test_every_upstream_asset_that_gives_rows_shows_in_some_column(asset: str) -> None:
    shown = {upstream for sources in COLUMN_SOURCES[asset].values() for upstream, _ in sources}
    assert shown == set(NODES[asset].upstream)
