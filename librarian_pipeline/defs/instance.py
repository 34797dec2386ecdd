"""Dagster's own storage, inside the archive: `dagster_home/`."""

import os
from pathlib import Path

import dagster as dg
import yaml
from dagster import DagsterRunStatus, RunsFilter

COMMAND_TAG = {"librarian/command": "run"}
ONLY_IF_DUE = {"librarian/only_if_due": "true"}
"""Marks a run that nobody asked for by hand: what another process has derived meanwhile is left as it is."""
FULL_TAG = {"librarian/full": "true"}
"""Marks a run that takes nothing from a cache."""

HEADER = "# Written by the Librarian pipeline; replaced when it changes.\n"


def open_instance(folder: Path) -> dg.DagsterInstance:
    """The instance in `folder`, made if it isn't there yet."""
    write_config(folder)
    os.environ["DAGSTER_HOME"] = str(folder)
    return dg.DagsterInstance.from_config(str(folder))


def write_config(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "telemetry": {"enabled": False},
        "event_log_storage": {  # one file rather than one a run
            "module": "dagster._core.storage.event_log",
            "class": "ConsolidatedSqliteEventLogStorage",
            "config": {"base_dir": str(folder / "history")},
        },
        "concurrency": {"runs": {"max_concurrent_runs": 2}},
    }
    path, text = folder / "dagster.yaml", HEADER + yaml.safe_dump(config, allow_unicode=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def close_dead_runs(instance: dg.DagsterInstance) -> None:
    """Marks the runs of a command that was killed as canceled. Call it only while no other command is running."""
    unfinished = [DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED]
    for run in instance.get_runs(filters=RunsFilter(tags=COMMAND_TAG, statuses=unfinished)):
        instance.report_run_canceled(run, message="The command that started this run ended before it did.")
