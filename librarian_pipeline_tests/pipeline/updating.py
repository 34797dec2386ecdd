"""Brings an archive up to date without Dagster, and looks at what came of it: for tests that do it many times."""

import json
from pathlib import Path

from librarian_pipeline.derivation.updating import Update, bring_up_to_date, in_this_process
from librarian_pipeline.evaluation.history import TABLE as HISTORY
from librarian_pipeline.lineage.planning import Planner, Scope
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.silent import Silent


def bring(home: Path, scope: Scope | None = None) -> Update:
    workspace = Workspace.open(home)
    workspace.tidy(prune=True)
    return bring_up_to_date(workspace, Planner(scope or Scope()), Silent(), in_this_process(workspace, Silent()))


def content(home: Path) -> dict[str, tuple[str, str]]:
    """Version and rows of each table of each output, read from the files themselves."""
    warehouse = Workspace.open(home).warehouse
    found = {}
    for table in set(warehouse.tables()) - {HISTORY}:  # when something was measured is no output
        for partition in warehouse.partitions(table):
            record = warehouse.provenance(table, partition)
            assert record is not None
            rows = json.dumps(warehouse.read(table, partition).to_pylist(), default=str)
            found[f"{table}/{partition}"] = (record.version, rows)
    return found
