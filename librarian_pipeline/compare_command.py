"""What `librarian compare` does: measures other settings beside those of the archive, which stays as it is."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from filelock import FileLock, Timeout

from librarian_pipeline.comparison.candidates import AS_SET, Candidate
from librarian_pipeline.comparison.deriving import DerivedCandidate, Workbench, files_of
from librarian_pipeline.comparison.results import PRIMARY, Results, Row, as_json, results_of
from librarian_pipeline.console import print_json, print_lines, print_table, showing_progress
from librarian_pipeline.errors import LibrarianError, UsageError
from librarian_pipeline.evaluation.gold import read_gold_set
from librarian_pipeline.evaluation.metrics import HEADLINE
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.lineage.outdated import verdict_of
from librarian_pipeline.lineage.planning import Batch
from librarian_pipeline.lineage.recipes import transcript_source
from librarian_pipeline.retrieval.embedders import embedder_card
from librarian_pipeline.run_command import seconds_of_audio
from librarian_pipeline.speech.weights import whisper_digest
from librarian_pipeline.workspace import Workspace


def compare_settings(
    workspace: Workspace, candidates: Sequence[Candidate], modes: Sequence[str], *, as_json_text: bool, debug: bool = False
) -> int:
    """Derives the candidates, prints how they differ from the first, and returns the exit code: 1 if one could not be
    derived as a whole.

    Raises `LibrarianError` if there is no gold set to compare on, if a model is not there, or if the archive's files change
    meanwhile.
    """
    _require_gold(workspace)
    for candidate in candidates:
        _require_models(workspace, candidate)
    with _comparison_lock(workspace):
        before = files_of(workspace)
        bench = Workbench(workspace)
        opened = [(candidate, bench.open(candidate)) for candidate in candidates]
        derived = [_derive(bench, candidate, own) for candidate, own in opened]
        bench.clear_earlier()
        if files_of(workspace) != before:
            fix = "compare again: what didn't change is not derived again"
            raise LibrarianError("files of the archive changed while the candidates were derived", fix)
        # Under the lock still: the next comparison moves the candidates away.
        measured = [one for one in derived if one.is_measured]
        is_comparable = bool(measured) and measured[0].candidate.name == AS_SET
        results = results_of(measured, modes, workspace.settings.evaluation) if is_comparable else None
    if debug:
        print_lines((trace for one in derived for trace in one.update.traces.values()), to_stderr=True)
    if results is not None:
        if as_json_text:
            print_json(as_json(measured, results))
        else:
            _print_results(measured, results, workspace.settings.evaluation.confidence)
    return _conclude(derived)


def _require_gold(workspace: Workspace) -> None:
    path = workspace.archive.gold_path
    if not any(query.relevant for query in read_gold_set(path)):
        raise UsageError(f"there are no judged queries to compare on in {path}", "put some there (see the README)")


def _require_models(workspace: Workspace, candidate: Candidate) -> None:
    """Raises before anything is derived, if the candidate's models are not on this machine."""
    settings = candidate.settings
    episodes = workspace.archive.discover().episodes.values()
    try:
        embedder_card(settings.embeddings)
        if any(transcript_source(files, settings) == "audio" for files in episodes):
            whisper_digest(settings.whisper.model)
    except UsageError as error:
        raise type(error)(f"{candidate.name}: {error.message}", error.fix) from error


@contextmanager
def _comparison_lock(workspace: Workspace) -> Iterator[None]:
    """One comparison at a time: the others wait. A run beside it is not kept away, and doesn't disturb it."""
    folder = workspace.warehouse.root
    lock = FileLock(folder / ".compare.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        print_lines(
            ["another comparison is at work on this archive: waiting until it has ended (Ctrl-C gives up)"], to_stderr=True
        )
        lock.acquire()
    except OSError as error:
        raise UsageError(f"{folder} can't be written ({error.strerror})", "name another archive with --home DIR") from error
    try:
        yield
    finally:
        lock.release()


def _derive(bench: Workbench, candidate: Candidate, workspace: Workspace) -> DerivedCandidate:
    """Says on stderr what it is at, and what came of it."""
    started = time.monotonic()
    print_lines([f"{candidate.name}:"], to_stderr=True)
    with showing_progress(seconds_of_audio(workspace, _due_transcripts(workspace))) as progress:
        derived = bench.derive(candidate, workspace, progress)
    counts = ", ".join(f"{asset} {n}" for asset, n in derived.derived.items())
    done = f"derived in {time.monotonic() - started:.0f} s: {counts}" if counts else "derived nothing"
    print_lines([f"{candidate.name}: {done}; shared {derived.n_shared} of {derived.n_outputs}"], to_stderr=True)
    return derived


def _due_transcripts(workspace: Workspace) -> list[Batch]:
    discovery = workspace.archive.discover()
    everything = [Item("transcripts", episode) for episode in discovery.episodes]
    due = [item for item in everything if verdict_of(item, workspace.observe_item(item, discovery)).due]
    return [Batch(item.partition, (item.asset,)) for item in due]


def _print_results(derived: Sequence[DerivedCandidate], results: Results, confidence: float) -> None:
    print_lines([""])
    for one, table in zip(derived, results.tables, strict=True):
        name = one.candidate.name if one.candidate.label == AS_SET else f"{one.candidate.label}: {one.candidate.name}"
        print_lines([name, f"   {table.caption}"])
    print_lines(["", *_how_compared(results)])
    for mode, rows in results.rows.items():
        if rows:
            print_lines(["", mode])
            header = ["", *HEADLINE, "change", f"{100 * confidence:g} % interval", "p", "Holm", "won-lost"]
            print_table(header, [_cells(row) for row in rows], numbers_from=1)


def _how_compared(results: Results) -> list[str]:
    lines = []
    if results.left_out:
        lines.append(f"left out, as not every candidate has passages for all their spans: {', '.join(results.left_out)}")
    if results.lost:
        lines.append(f"left out, as no candidate has a passage for any of their spans: {len(results.lost)} queries")
    if not results.queries:
        return [*lines, "no query is left to compare on"]
    tests = f"; Holm: p corrected for all {results.n_tests} tests" if results.n_tests > 1 else ""
    return [
        *lines,
        f"{len(results.queries)} queries, each compared with itself as set",
        f"change: of {PRIMARY}, with its bootstrap interval; p: two-sided sign-flip test{tests}",
    ]


def _cells(row: Row) -> list[str]:
    figures = [row.candidate.label, *(f"{row.means[metric]:.2f}" for metric in HEADLINE)]
    if not row.paired:
        return [*figures, *[""] * 5]
    if not row.corrected:
        return [*figures, "same", *[""] * 4]
    paired = row.paired[PRIMARY]
    interval = f"{paired.low:+.3f} to {paired.high:+.3f}"
    won_lost = f"{paired.wins}-{paired.losses}"
    return [*figures, f"{paired.difference:+.3f}", interval, _p(paired.p), _p(row.corrected[PRIMARY]), won_lost]


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.0005 else "<.001"


def _conclude(derived: Sequence[DerivedCandidate]) -> int:
    """Names what could not be derived, and of which candidates."""
    befell: dict[str, list[str]] = {}
    for one in derived:
        lines = [f"failed: {problem}" for problem in one.problems]
        unmeasured = [] if one.is_measured else ["not measured, since what its figures rest on could not be derived"]
        for line in (*lines, *unmeasured):
            befell.setdefault(line, []).append(one.candidate.name)
    for line, names in befell.items():
        print_lines([f"{line} ({'; '.join(names) if len(names) < len(derived) else 'every candidate'})"], to_stderr=True)
    deferred = {f"deferred: {episode}: {line}" for one in derived for episode, line in one.update.deferred.items()}
    print_lines(sorted(deferred), to_stderr=True)
    return 1 if befell else 0
