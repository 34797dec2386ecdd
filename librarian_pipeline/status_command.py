"""What `librarian status` shows: what is out of date, and why."""

from librarian_pipeline.console import print_json, print_lines
from librarian_pipeline.lineage.outdated import State, Verdict, verdicts
from librarian_pipeline.workspace import Workspace


def print_status(workspace: Workspace, *, as_json: bool) -> None:
    found = verdicts(workspace.observe())
    departed = workspace.departed(workspace.archive.discover())
    if as_json:
        everything = [*found.items(), *((item, Verdict(State.DEPARTED)) for item in departed)]
        print_json(
            [
                {"asset": item.asset, "partition": item.partition, "state": verdict.state, "reasons": verdict.reasons}
                for item, verdict in everything
            ]
        )
        return
    notable = {item: verdict for item, verdict in found.items() if verdict.state is not State.FRESH}
    print_lines(f"{item}: {verdict.state}: {'; '.join(verdict.reasons)}" for item, verdict in notable.items())
    gone = sorted({str(item.partition) for item in departed})
    print_lines(f"{episode}: its files are gone, and the next run removes what was derived from them" for episode in gone)
    if not notable and not gone:
        print_lines([f"all {len(found)} outputs are up to date"])
