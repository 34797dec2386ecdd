"""What `librarian ui` does: becomes Dagster's web UI on the archive, with its sensors and schedules running."""

import os
import sys
from pathlib import Path
from typing import NoReturn

from librarian_pipeline.defs.instance import hold_ui_lock, open_instance
from librarian_pipeline.defs.partitions import register_episodes
from librarian_pipeline.defs.running import close_dead_runs
from librarian_pipeline.workspace import Workspace

WORKSPACE_FILE = Path(__file__).parent.parent / "workspace.yaml"


def become_ui(workspace: Workspace, port: int) -> NoReturn:
    """On 127.0.0.1. Raises `UsageError` where there is no archive, or where its UI runs already."""
    discovery = workspace.archive.discover()
    hold_ui_lock(workspace.archive.dagster_home_dir)
    with open_instance(workspace.archive.dagster_home_dir, workspace.settings.dagster) as instance:
        close_dead_runs(instance, of_commands=False)
        register_episodes(instance, set(discovery.episodes))
    environment = {**os.environ, "LIBRARIAN_HOME": str(workspace.home)}
    # Away from the checkout: the dagster.yaml there is for a plain `dagster dev`, and Dagster would warn of two.
    os.chdir(workspace.archive.dagster_home_dir)
    where = ["--workspace", str(WORKSPACE_FILE), "--host", "127.0.0.1", "--port", str(port)]
    os.execve(sys.executable, [sys.executable, "-m", "dagster", "dev", *where], environment)
