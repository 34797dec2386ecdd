"""The hygiene of the gold set as asset checks: of its queries on `gold_set`, of its passages where these are known.

They have steps of their own, so that they can be executed alone, after a threshold was changed for one. None blocks.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from librarian_pipeline.defs.metadata import SEVERITIES, rows_as_markdown
from librarian_pipeline.defs.resources import ArchiveResource
from librarian_pipeline.evaluation.gold_health import gold_health
from librarian_pipeline.evaluation.hygiene import HYGIENE_CHECKS, OF_QUERIES_ALONE, HygieneCheck

SHOWN = 50
"""Offenders in a check's table."""


def _specs(asset: str, names: Sequence[str]) -> list[dg.AssetCheckSpec]:
    return [dg.AssetCheckSpec(name, asset=asset, description=HYGIENE_CHECKS[name]) for name in names]


@dg.multi_asset_check(name="gold_queries", specs=_specs("gold_set", OF_QUERIES_ALONE), can_subset=True)
def gold_queries(context: dg.AssetCheckExecutionContext, archive: ArchiveResource) -> Iterator[dg.AssetCheckResult]:
    """Duplicates, and episodes that both splits are judged on."""
    yield from _results(context, archive)


@dg.multi_asset_check(
    name="gold_passages",
    specs=_specs("eval_scores", [name for name in HYGIENE_CHECKS if name not in OF_QUERIES_ALONE]),
    can_subset=True,
)
def gold_passages(context: dg.AssetCheckExecutionContext, archive: ArchiveResource) -> Iterator[dg.AssetCheckResult]:
    """Labels that meet no passage, and words that queries share with passages."""
    yield from _results(context, archive)


GOLD_CHECKS = [gold_queries, gold_passages]


def _results(context: dg.AssetCheckExecutionContext, archive: ArchiveResource) -> Iterator[dg.AssetCheckResult]:
    workspace = archive.open()
    asset_of = {key.name: key.asset_key for key in context.selected_asset_check_keys}
    for check in gold_health(workspace.warehouse, workspace.settings.gold):
        if check.name in asset_of:
            yield _result(check, asset_of[check.name])


def _result(check: HygieneCheck, asset: dg.AssetKey) -> dg.AssetCheckResult:
    rows = [{"offender": line} for line in check.offenders[:SHOWN]]
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=check.name,
        passed=check.passed,
        severity=SEVERITIES[check.severity],
        description=check.message,
        metadata={"offenders": len(check.offenders), **({"first": rows_as_markdown(rows, ["offender"])} if rows else {})},
    )
