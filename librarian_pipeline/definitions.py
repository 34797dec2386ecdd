"""Dagster's entry point: the only place where assets, checks, automation and resources are put together."""

from pathlib import Path

import dagster as dg

from librarian_pipeline.defs.assets import ASSETS
from librarian_pipeline.defs.automation import automation
from librarian_pipeline.defs.azure import azure_assets
from librarian_pipeline.defs.code_versions import with_code_versions
from librarian_pipeline.defs.gold_checks import GOLD_CHECKS
from librarian_pipeline.defs.history_checks import figures_reproduce
from librarian_pipeline.defs.resources import ArchiveResource, ProgressResource, default_home, executor
from librarian_pipeline.progress import Progress
from librarian_pipeline.workspace import Workspace


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions for the archive at `LIBRARIAN_HOME`."""
    return definitions_for(default_home())


def definitions_for(home: Path, progress: Progress | None = None) -> dg.Definitions:
    """The definitions for the archive at `home`; progress goes to the run's log unless something else is given.

    Raises `UsageError` if the archive's settings are wrong.
    """
    workspace = Workspace.open(home)
    sensors, schedules = automation(workspace.settings.dagster)
    return dg.Definitions(
        assets=[*with_code_versions(ASSETS, workspace.settings), *azure_assets(home)],
        asset_checks=[*GOLD_CHECKS, figures_reproduce],
        sensors=sensors,
        schedules=schedules,
        resources={"archive": ArchiveResource(home=str(home)), "progress": progress or ProgressResource()},
        executor=executor(workspace.settings),
    )
