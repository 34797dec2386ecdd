"""Dagster's own storage, inside the archive: `dagster_home/`."""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import yaml
from filelock import FileLock

from librarian_pipeline.errors import UsageError
from librarian_pipeline.settings import DagsterSettings

COMMAND_TAG = {"librarian/command": "run"}
ONLY_IF_DUE = {"librarian/only_if_due": "true"}
"""Marks a run that nobody asked for by hand: what another process has derived meanwhile is left as it is."""
FULL_TAG = {"librarian/full": "true"}
"""Marks a run that takes nothing from a cache."""

TRIGGER_TAG = "librarian/trigger"
"""What made a run start, in a word, where it is not told by who started it."""

SNAPSHOT_TAG = "librarian/snapshot"
"""The published snapshot that made a run start."""

HEADER = "# Written by the Librarian pipeline; replaced when it changes.\n"


def open_instance(folder: Path, settings: DagsterSettings) -> dg.DagsterInstance:
    """The instance in `folder`, made if it isn't there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["DAGSTER_HOME"] = str(folder)
    # Two processes that make the tables of one new folder at once would trip over each other.
    with FileLock(folder / ".making.lock"):
        _write_config(folder, settings)
        instance = dg.DagsterInstance.from_config(str(folder))
        instance.get_dynamic_partitions("")  # reaches the storages, which make their tables at the first use
        instance.get_runs_count()
        if instance.schedule_storage:
            instance.schedule_storage.all_instigator_state()
    return instance


def trigger_of(tags: Mapping[str, str]) -> str:
    """Who asked for a run with these tags: `run` (the command), a sensor or schedule by its name, or a person, `by hand`."""
    if COMMAND_TAG.items() <= tags.items():
        return COMMAND_TAG["librarian/command"]
    return tags.get(TRIGGER_TAG) or tags.get("dagster/schedule_name") or tags.get("dagster/sensor_name") or "by hand"


def _write_config(folder: Path, settings: DagsterSettings) -> None:
    config = {
        "telemetry": {"enabled": False},
        "nux": {"enabled": False},  # the dialog over the first page that asks for an e-mail address
        "event_log_storage": {  # one file rather than one a run
            "module": "dagster._core.storage.event_log",
            "class": "ConsolidatedSqliteEventLogStorage",
            "config": {"base_dir": str(folder / "history")},
        },
        "concurrency": {"runs": {"max_concurrent_runs": settings.max_concurrent_runs}},
    }
    path, text = folder / "dagster.yaml", HEADER + yaml.safe_dump(config, allow_unicode=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def hold_ui_lock(folder: Path) -> None:
    """Taken by the UI of an archive, and kept by the program that this process becomes until that ends.

    Raises `UsageError` if another UI holds it: two daemons on one archive would start everything twice.
    """
    path = folder / ".ui.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UsageError(f"{path} can't be written ({error.strerror})", "make the archive writable") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError("the UI of this archive is running already", "use that one, or end it first") from error
    os.set_inheritable(descriptor, True)
