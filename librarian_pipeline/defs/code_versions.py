"""Dagster's code version of each asset is the fingerprint of its recipe."""

from collections.abc import Iterable

import dagster as dg

from librarian_pipeline.errors import UsageError
from librarian_pipeline.lineage.recipes import recipe
from librarian_pipeline.settings import Settings
from librarian_pipeline.storage.provenance import fingerprint


def with_code_versions(assets: Iterable[dg.AssetsDefinition], settings: Settings) -> list[dg.AssetsDefinition]:
    def versioned(spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.replace_attributes(code_version=_code_version(spec.key.to_user_string(), settings))

    return list(dg.map_asset_specs(versioned, assets))


def _code_version(asset: str, settings: Settings) -> str | None:
    try:
        return fingerprint(recipe(asset, settings))
    except UsageError:
        return None  # the step that needs the model says what is wrong
