"""What readers get: `published_index`."""

import pyarrow as pa

from librarian_pipeline.derivation.step import Output, Step
from librarian_pipeline.errors import LibrarianError
from librarian_pipeline.lineage.graph import NODES, Item
from librarian_pipeline.lineage.outdated import block_upstream
from librarian_pipeline.retrieval.indexing import indexed_episodes, load_searcher
from librarian_pipeline.retrieval.search_settings import MODE, search_settings, searched_with
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.storage.schemas import PUBLISHED_INDEX
from librarian_pipeline.storage.snapshot import Snapshot


def published_index(step: Step) -> Output:
    """The snapshot that search and servers read: built once the gates are passed, then swapped in in one step."""
    _require_measured(step)
    _require_passed(step)
    snapshots, search = step.workspace.snapshots, search_settings(step.settings)
    with snapshots.locked():
        before = snapshots.served_id()
        snapshot = snapshots.build(step.warehouse, _candidate(step), search)
        # One that can't be searched must not be served.
        load_searcher(snapshot.tables, searched_with(step.settings, search))
        snapshots.serve(snapshot)
    row = _row(snapshot)
    facts = {**row, "served before": before or "nothing"}
    if not row["n_queries"]:
        facts["warning"] = "published without a measurement: no gold query has a passage that answers it"
    return Output(pa.Table.from_pylist([row], schema=PUBLISHED_INDEX), facts=facts)


def _require_measured(step: Step) -> None:
    """The figures have to be those of the indexes that would be published. Raises `LibrarianError` if they aren't."""
    record = step.warehouse.committed("eval_scores")
    assert record is not None  # a step isn't opened before
    measured = {name: version for name, version in record.inputs.items() if name.partition("[")[0] in NODES}
    changed = sorted(name for name, version in measured.items() if step.inputs.get(name) != version)
    if changed:
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise LibrarianError(f"{changed[0]}{others} changed since the index was measured", "run `librarian run`")


def _require_passed(step: Step) -> None:
    if reason := block_upstream(step.item, step.world):
        served = step.workspace.snapshots.served_id()
        kept = f"{served} goes on being served" if served else "nothing is served yet"
        raise LibrarianError(f"not published: {reason}; {kept}", "mend it, or accept it, and run `librarian run`")


def _candidate(step: Step) -> list[Provenance]:
    """The records of all that the snapshot is to hold."""
    stored = step.world.stored
    of_the_archive = (Item(name) for name in NODES[step.item.asset].upstream if not NODES[name].per_episode)
    found = [stored[item] for item in of_the_archive if item in stored]
    for episode in indexed_episodes(step.warehouse):
        chunks, transcript = Item("chunks", episode), Item("transcripts", episode)
        if chunks in stored:
            found.append(stored[chunks])
            # A transcript that is blocked is not the one its passages were cut from: citations would point elsewhere.
            if transcript in stored and stored[chunks].inputs.get(str(transcript)) == stored[transcript].version:
                found.append(stored[transcript])
    return found


def _row(snapshot: Snapshot) -> dict[str, object]:
    rows, tables = snapshot.manifest.rows, snapshot.tables
    models = tables.read("vector_index_model").column("model").to_pylist()
    [corpus] = tables.read("eval_corpus").to_pylist()
    return {
        "snapshot_id": snapshot.id,
        "n_episodes": corpus["n_episodes"],
        "n_passages": rows.get("chunks", 0),
        "n_segments": rows.get("transcripts", 0),
        "n_queries": corpus["n_queries"],
        "default_mode": snapshot.manifest.search[MODE],
        "embedding_model": models[0] if models else None,
    }
