"""What the assets are given to work with."""

import os
from pathlib import Path

import dagster as dg

from librarian_pipeline.progress import LogProgress
from librarian_pipeline.settings import Settings
from librarian_pipeline.workspace import Workspace

DEFAULT_HOME = "data"


def default_home() -> Path:
    """`LIBRARIAN_HOME`, or `./data`."""
    return Path(os.environ.get("LIBRARIAN_HOME") or DEFAULT_HOME).expanduser().resolve()


class ArchiveResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The archive that is worked on. Opened anew for each step, so that a changed setting counts from the next step on."""

    home: str

    def open(self) -> Workspace:
        return Workspace.open(Path(self.home))


class ProgressResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Progress in the run's log: for runs that nobody watches on a terminal."""

    def report(self, stage: str, item: str, done: float, total: float, unit: str) -> None:
        _LOG_PROGRESS.report(stage, item, done, total, unit)


_LOG_PROGRESS = LogProgress(dg.get_dagster_logger("librarian"))


def executor(settings: Settings) -> dg.ExecutorDefinition:
    return {"in_process": dg.in_process_executor, "multiprocess": dg.multiprocess_executor}[settings.dagster.executor]
