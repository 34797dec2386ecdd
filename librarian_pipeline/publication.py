"""What is published of an archive, and why its latest index is not."""

import shlex
from dataclasses import dataclass

from librarian_pipeline.errors import UsageError
from librarian_pipeline.lineage.outdated import State, block_upstream, verdict_of
from librarian_pipeline.storage.snapshot import Snapshot
from librarian_pipeline.workspace import PUBLISHED, Workspace


@dataclass(frozen=True)
class Standing:
    """`served` and `candidate` name snapshots: the one that is read, and the last that was made of the warehouse.

    `refusal` says why what is in the warehouse now is not published; None where it is, or where a person went back.
    """

    served: str | None
    candidate: str | None
    refusal: str | None

    @property
    def is_rolled_back(self) -> bool:
        return self.refusal is None and self.served != self.candidate

    @property
    def line(self) -> str:
        """`published: ID`, or why not."""
        if self.refusal is not None:
            kept = f"{self.served} goes on being served" if self.served else "nothing is served yet"
            return f"not published: {self.refusal}; {kept}"
        if self.is_rolled_back:
            return f"published: {self.served}, gone back to from {self.candidate}, which `librarian publish` serves again"
        return f"published: {self.served}"


def standing(workspace: Workspace) -> Standing:
    """As things are now, whatever may be to do upstream of the index that is in the warehouse."""
    snapshots, warehouse = workspace.snapshots, workspace.warehouse
    record = warehouse.committed(PUBLISHED.asset)
    candidate = warehouse.read(PUBLISHED.asset).column("snapshot_id")[0].as_py() if record else None
    world = workspace.observe_item(PUBLISHED, workspace.archive.discover())
    refusal = block_upstream(PUBLISHED, world)
    if refusal is None:
        verdict = verdict_of(PUBLISHED, world)
        refusal = None if verdict.state is State.FRESH else "; ".join(verdict.reasons)
    return Standing(snapshots.served_id(), candidate, refusal)


def open_published(workspace: Workspace) -> Snapshot:
    """The snapshot that is served. Raises `UsageError` before the first one, and `SnapshotError` if it is damaged."""
    snapshot = workspace.snapshots.current()
    if snapshot is not None:
        return snapshot
    home = shlex.quote(str(workspace.home))
    if workspace.warehouse.committed("eval_scores") is None:
        raise UsageError("there is no published index yet", f"run `librarian run --home {home}`")
    refusal = standing(workspace).refusal
    raise UsageError(f"there is no published index yet ({refusal})", f"mend that, then run `librarian run --home {home}`")


def difference(workspace: Workspace, snapshot: Snapshot) -> str | None:
    """A note if the warehouse holds another index than the snapshot; None where it holds the same, or none."""
    records = {name: workspace.warehouse.committed(name) for name in snapshot.manifest.outputs if "[" not in name}
    published = snapshot.manifest.outputs
    if all(record is None or record.version == published[name].version for name, record in records.items()):
        return None
    return f"the published index {snapshot.id} is searched; the latest one differs: {standing(workspace).line}"
