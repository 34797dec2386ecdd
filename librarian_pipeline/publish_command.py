"""What `librarian publish` does: publishes the latest index, goes back to the one before, lists what there is."""

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path

from librarian_pipeline.console import print_json, print_lines, print_table, showing_progress
from librarian_pipeline.derivation.derive import derive
from librarian_pipeline.evaluation.measure import nothing_measured
from librarian_pipeline.storage.snapshot import Snapshot, SnapshotError
from librarian_pipeline.workspace import PUBLISHED, Workspace


@dataclass(frozen=True)
class Swap:
    """The snapshots that were served before and after; None before the first one."""

    before: str | None
    served: str


@dataclass(frozen=True)
class Listed:
    """A snapshot that is kept; without counts where it is damaged, and `damage` says how. `created` is in UTC."""

    id: str
    is_served: bool
    created: str | None = None
    episodes: int | None = None
    passages: int | None = None
    damage: str | None = None


def publish_candidate(workspace: Workspace) -> Swap:
    """Publishes what is in the warehouse. Raises `LibrarianError` if a gate failed, or if it was not measured as it is."""
    if workspace.warehouse.committed("eval_scores") is None:
        raise nothing_measured(workspace.warehouse)
    before = workspace.snapshots.served_id()
    with showing_progress({}) as progress:
        derive(workspace, PUBLISHED, progress, mirror=True)
    served = workspace.snapshots.current_id()
    assert served is not None
    return Swap(before, served)


def published_line(swap: Swap) -> str:
    if swap.before == swap.served:
        return f"published: {swap.served}, as before"
    return f"published: {swap.served}" + (f" (before: {swap.before})" if swap.before else "")


def roll_back(workspace: Workspace) -> Swap:
    """Raises `UsageError` if there is nothing to go back to."""
    return Swap(*workspace.snapshots.roll_back())


def rollback_lines(swap: Swap, workspace: Workspace) -> list[str]:
    home = shlex.quote(str(workspace.home))
    return [
        f"rolled back: {swap.served} is served instead of {swap.before or 'nothing'}",
        f"it stays until the archive changes; `librarian publish --home {home}` serves the latest index again",
    ]


def kept_snapshots(workspace: Workspace) -> list[Listed]:
    """The latest first."""
    snapshots = workspace.snapshots
    served = snapshots.served_id()
    return [_listed(snapshots.folder / name, is_served=name == served) for name in reversed(snapshots.history())]


def _listed(folder: Path, *, is_served: bool) -> Listed:
    try:
        snapshot = Snapshot.open(folder)
    except SnapshotError as error:
        return Listed(folder.name, is_served, damage=error.message)
    [row] = snapshot.tables.read("eval_corpus").to_pylist()
    return Listed(snapshot.id, is_served, snapshot.manifest.created, row["n_episodes"], row["n_passages"])


def print_published(workspace: Workspace, *, as_json: bool) -> None:
    swap = publish_candidate(workspace)
    _print_swap(swap, [published_line(swap)], as_json)


def print_rolled_back(workspace: Workspace, *, as_json: bool) -> None:
    swap = roll_back(workspace)
    _print_swap(swap, rollback_lines(swap, workspace), as_json)


def _print_swap(swap: Swap, lines: list[str], as_json: bool) -> None:
    if as_json:
        print_json(asdict(swap))
    else:
        print_lines(lines)


def print_kept(workspace: Workspace, *, as_json: bool) -> None:
    kept = kept_snapshots(workspace)
    if as_json:
        print_json([asdict(snapshot) for snapshot in kept])
    elif not kept:
        print_lines(["nothing is published yet"])
    else:
        print_table(
            ["", "snapshot", "made (UTC)", "episodes", "passages", ""],
            [
                [
                    "served" if snapshot.is_served else "",
                    snapshot.id,
                    (snapshot.created or "")[:19].replace("T", " "),
                    str(snapshot.episodes or ""),
                    str(snapshot.passages or ""),
                    snapshot.damage or "",
                ]
                for snapshot in kept
            ],
        )
