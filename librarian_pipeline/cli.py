"""The `librarian` command. Heavy libraries are imported by the commands that need them."""

import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from librarian_pipeline.errors import LibrarianError, UsageError

if TYPE_CHECKING:
    from librarian_pipeline.defs.update import Outcome
    from librarian_pipeline.evaluation.score_table import ScoreTable
    from librarian_pipeline.lineage.planning import Batch, Planner
    from librarian_pipeline.workspace import Workspace

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="A podcast archive in, a measured and searchable index out.",
)

Home = Annotated[Path, typer.Option(envvar="LIBRARIAN_HOME", help="The archive's folder.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

DEFAULT_HOME = Path("data")
SEARCH_TEXT_CHARACTERS = 300
INTERRUPTED = 130
WORKSPACE_FILE = Path(__file__).parent.parent / "workspace.yaml"


def main() -> None:
    """The entry point: errors become one line on stderr and an exit code."""
    try:
        code = app(standalone_mode=False)
    except LibrarianError as error:
        code = _fail(str(error), error.exit_code)
    except typer.TyperException as error:
        code = _fail(error.format_message(), UsageError.exit_code)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output, `head` for one, has left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:
        code = _fail(f"unexpected {type(error).__name__}: {error} (--debug shows where)", 1)
    if code == INTERRUPTED:
        _fail("interrupted; what was finished is kept, and the next run goes on from there", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(line: str, code: int) -> int:
    from librarian_pipeline.console import print_lines

    if "--debug" in sys.argv:
        traceback.print_exc()
    print_lines([f"error: {' '.join(line.split())}"], to_stderr=True)
    return code


@app.command()
def run(
    home: Home = DEFAULT_HOME,
    episode: Annotated[list[str] | None, typer.Option(help="Only this episode; may be repeated.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Derive everything anew, whatever its state.")] = False,
    debug: Debug = False,
) -> None:
    """Bring everything up to date, and print the score table."""
    from filelock import FileLock, Timeout

    from librarian_pipeline.lineage.planning import Planner, Scope

    workspace = _open(home)
    planner = Planner(Scope(_known_episodes(workspace, episode), full))
    lock = FileLock(workspace.warehouse.root / ".run.lock")
    workspace.warehouse.root.mkdir(parents=True, exist_ok=True)
    try:
        with lock.acquire(blocking=False):
            code = _run_locked(workspace, planner, debug)
    except Timeout as error:
        raise UsageError("another run is at work on this archive", "wait until it has ended") from error
    raise typer.Exit(code)


def _run_locked(workspace: "Workspace", planner: "Planner", debug: bool) -> int:
    from librarian_pipeline.console import print_lines, showing_progress
    from librarian_pipeline.lineage.outdated import verdicts

    started = time.monotonic()
    workspace.tidy()
    discovery = workspace.archive.discover()
    world = workspace.observe(discovery)
    batches = planner.next_round(verdicts(world), world.episodes)
    errors: dict[Any, str] = {}
    deferred: dict[str, str] = {}
    if batches:
        # Dagster takes seconds to import: only where there is something to do.
        from librarian_pipeline.defs.update import bring_up_to_date

        with showing_progress(_seconds_of_audio(workspace, batches)) as progress:
            outcome = bring_up_to_date(workspace, planner, progress)
        errors, deferred = outcome.errors, outcome.deferred
        _say_what_was_done(outcome, time.monotonic() - started, debug)
    else:
        print_lines(["everything is up to date"])
    _refresh_mirror(workspace)
    problems = [problem.line for problem in discovery.problems]
    failures = workspace.failures(discovery.episodes)
    lost = _print_scores(workspace)
    print_lines([f"left out: {line}" for line in problems], to_stderr=True)
    print_lines([f"deferred: {episode}: {line}" for episode, line in deferred.items()], to_stderr=True)
    print_lines([f"failed: {item}: {failure.line}" for item, failure in failures.items()], to_stderr=True)
    print_lines([f"error: {item}: {line}" for item, line in errors.items()], to_stderr=True)
    print_lines([f"gold set: {line}" for line in lost], to_stderr=True)
    return 1 if errors or failures or lost else 0


def _say_what_was_done(outcome: "Outcome", seconds: float, debug: bool) -> None:
    from librarian_pipeline.console import print_lines

    counts: dict[str, int] = {}
    for item in outcome.derived:
        counts[item.asset] = counts.get(item.asset, 0) + 1
    done = ", ".join(f"{asset} {n}" for asset, n in counts.items()) or "nothing"
    print_lines([f"derived in {seconds:.0f} s: {done}"])
    if debug:
        print_lines(outcome.traces.values(), to_stderr=True)


def _seconds_of_audio(workspace: "Workspace", batches: "Sequence[Batch]") -> dict[str, float]:
    """How long transcription has to work: the stated length of the audio to be transcribed."""
    from librarian_pipeline.lineage.recipes import transcript_source
    from librarian_pipeline.speech.decode import header_duration_ms

    episodes = workspace.archive.discover().episodes
    due = [episodes[batch.partition] for batch in batches if batch.partition and "transcripts" in batch.assets]
    spoken = [files.audio for files in due if transcript_source(files, workspace.settings) == "audio" and files.audio]
    return {"transcripts": sum((header_duration_ms(path) or 0) / 1000 for path in spoken)}


def _refresh_mirror(workspace: "Workspace") -> None:
    """Catches up with what other programs kept from being written."""
    from librarian_pipeline.console import print_lines
    from librarian_pipeline.storage import duckdb_mirror

    try:
        if not duckdb_mirror.is_current(workspace.warehouse):
            duckdb_mirror.refresh(workspace.warehouse)
    except duckdb_mirror.MirrorBusyError as error:
        print_lines([f"warning: {error}: its tables are brought up to date by the next run"], to_stderr=True)


def _print_scores(workspace: "Workspace") -> list[str]:
    """Prints the score table, if anything was measured; returns the labels that don't resolve."""
    from librarian_pipeline.console import print_lines
    from librarian_pipeline.evaluation.measure import lost_labels, stored_score_table
    from librarian_pipeline.storage import duckdb_mirror

    warehouse = workspace.warehouse
    if warehouse.committed("eval_scores") is None:
        return []
    table = stored_score_table(warehouse, workspace.settings)
    print_score_table(table)
    home, database = _shown(workspace.home), _shown(warehouse.root / duckdb_mirror.DATABASE)
    print_lines([f'\nnext: librarian search "..." --home {home}; SQL: {database}; Dagster\'s UI: make ui'])
    return lost_labels(warehouse)


def print_score_table(table: "ScoreTable") -> None:
    from librarian_pipeline.console import print_lines, print_table

    print_lines(["", table.caption, ""])
    if table.rows:
        print_table(table.header, table.rows, numbers_from=1)
    else:
        print_lines(["no gold queries, so nothing is measured: put some in gold/gold_set.json (see the README)"])


@app.command()
def status(home: Home = DEFAULT_HOME, as_json: Json = False, debug: Debug = False) -> None:
    """What is out of date, and why."""
    from librarian_pipeline.console import print_lines
    from librarian_pipeline.lineage.outdated import State, verdicts

    workspace = _open(home)
    found = verdicts(workspace.observe())
    if as_json:
        _print_json(
            [
                {"asset": item.asset, "partition": item.partition, "state": verdict.state, "reasons": verdict.reasons}
                for item, verdict in found.items()
            ]
        )
        return
    notable = {item: verdict for item, verdict in found.items() if verdict.state is not State.FRESH}
    print_lines(f"{item}: {verdict.state}: {'; '.join(verdict.reasons)}" for item, verdict in notable.items())
    gone = workspace.departed(workspace.archive.discover())
    print_lines(f"{item}: its episode is gone, and the next run removes it" for item in gone)
    if not notable and not gone:
        print_lines([f"all {len(found)} outputs are up to date"])


@app.command("eval")
def evaluate(home: Home = DEFAULT_HOME, as_json: Json = False, debug: Debug = False) -> None:
    """The score table of the current index."""
    from librarian_pipeline.console import print_lines
    from librarian_pipeline.evaluation.measure import lost_labels, stored_score_table
    from librarian_pipeline.lineage.outdated import verdicts

    workspace = _open(home)
    table = stored_score_table(workspace.warehouse, workspace.settings)
    if as_json:
        caption = {"passages": table.n_passages, "episodes": table.n_episodes, "queries": table.n_queries}
        scores = workspace.warehouse.read("eval_scores").to_pylist()
        _print_json({**caption, "dense": table.dense_backend, "scores": scores})
    else:
        print_score_table(table)
    lost = lost_labels(workspace.warehouse)
    print_lines([f"gold set: {line}" for line in lost], to_stderr=True)
    if not all(verdict.settled for verdict in verdicts(workspace.observe()).values()):
        print_lines(["note: the archive has changed since; `librarian run` measures it anew"], to_stderr=True)
    raise typer.Exit(1 if lost else 0)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    home: Home = DEFAULT_HOME,
    mode: Annotated[str | None, typer.Option(help="bm25_raw, bm25_stem, dense or hybrid (the default).")] = None,
    k: Annotated[int, typer.Option("-k", help="How many passages.")] = 5,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Ranked, cited passages."""
    from librarian_pipeline.console import print_lines
    from librarian_pipeline.retrieval.citations import Citer
    from librarian_pipeline.retrieval.indexing import load_searcher
    from librarian_pipeline.retrieval.modes import DEFAULT_MODE

    workspace = _open(home)
    searcher = load_searcher(workspace.warehouse, workspace.settings)
    citer = Citer(workspace.warehouse, searcher)
    hits = [(hit, citer.cite(query, hit.passage)) for hit in searcher.search(query, mode or DEFAULT_MODE, k)]
    if as_json:
        _print_json(
            [
                {
                    "rank": hit.rank,
                    "score": hit.score,
                    "citation": citation.text,
                    "episode_id": citation.episode_id,
                    "start_ms": citation.start_ms,
                    "chunk_id": hit.passage.chunk_id,
                    "layer": hit.passage.layer,
                    "text": hit.passage.text,
                }
                for hit, citation in hits
            ]
        )
        return
    for hit, citation in hits:
        print_lines([f"{hit.rank}. {citation.text}", f"   {_shortened(hit.passage.text)}"])
    if not hits:
        print_lines([f"no passage holds any word of {query!r}"])


@app.command()
def episodes(home: Home = DEFAULT_HOME, as_json: Json = False, debug: Debug = False) -> None:
    """The catalogue."""
    from librarian_pipeline.archive.timecodes import format_timecode
    from librarian_pipeline.console import print_table

    workspace = _open(home)
    if workspace.warehouse.committed("episodes") is None:
        raise UsageError("there is no catalogue yet", f"run `librarian run --home {home}`")
    rows = workspace.warehouse.read("episodes").to_pylist()
    if as_json:
        _print_json(rows)
        return
    print_table(
        ["id", "title", "date", "language", "length", "passages", "status"],
        [
            [
                row["episode_id"],
                row["title"] or "",
                row["published_at"] or "",
                row["language"] or "",
                format_timecode(row["duration_ms"]) if row["duration_ms"] else "",
                str(row["n_chunks_notes"] + row["n_chunks_transcript"]),
                ": ".join(filter(None, [row["status"], row["status_reason"]])),
            ]
            for row in rows
        ],
    )


@app.command()
def models(home: Home = DEFAULT_HOME, debug: Debug = False) -> None:
    """Each model in use, where its weights come from, its digest checked."""
    from librarian_pipeline.console import print_lines, print_table
    from librarian_pipeline.retrieval.embedders import embedder_card
    from librarian_pipeline.speech.weights import resolve_whisper

    settings = _open(home).settings
    _, whisper = resolve_whisper(settings.whisper.model)
    card = embedder_card(settings.embeddings)
    print_table(
        ["for", "model", "from", "sha256, checked"],
        [
            ["speech to text", whisper.name, whisper.source, whisper.digest[:16]],
            ["embeddings", card.model, card.source + (" (a fallback)" if card.is_fallback else ""), card.digest[:16]],
        ],
    )
    print_lines(
        [
            "",
            'others: [whisper] model = "tiny.en", a folder, or a hub name;',
            '[embeddings] model = "all-MiniLM-L6-v2", "char-ngram" (no weights), or "st:" and a folder or hub name',
        ]
    )


@app.command()
def doctor(home: Home = DEFAULT_HOME, debug: Debug = False) -> None:
    """What is missing or broken on this machine or in this archive, and what to do."""
    from librarian_pipeline.console import print_lines
    from librarian_pipeline.doctor import examine

    found = list(examine(home.expanduser().absolute()))
    for finding in found:
        mark, text = ("!!", finding.problem) if finding.problem else ("ok", finding.detail)
        print_lines([f"{mark} {finding.subject}: {text}"])
    broken = sum(bool(finding.problem) for finding in found)
    print_lines(["", f"{broken} to mend" if broken else "all is well"])
    raise typer.Exit(1 if broken else 0)


@app.command()
def ui(
    home: Home = DEFAULT_HOME,
    port: Annotated[int, typer.Option(help="Where it listens, on 127.0.0.1.")] = 3000,
    debug: Debug = False,
) -> None:
    """Dagster's web UI on this archive, with its sensors running."""
    from librarian_pipeline.defs.instance import open_instance
    from librarian_pipeline.defs.partitions import register_episodes

    workspace = _open(home)
    discovery = workspace.archive.discover()
    with open_instance(workspace.archive.dagster_home_dir) as instance:
        register_episodes(instance, set(discovery.episodes))
    environment = {**os.environ, "LIBRARIAN_HOME": str(workspace.home)}
    # Away from the checkout: the dagster.yaml there is for a plain `dagster dev`, and Dagster would warn of two.
    os.chdir(workspace.archive.dagster_home_dir)
    where = ["--workspace", str(WORKSPACE_FILE), "--host", "127.0.0.1", "--port", str(port)]
    os.execve(sys.executable, [sys.executable, "-m", "dagster", "dev", *where], environment)


def _open(home: Path) -> "Workspace":
    from librarian_pipeline.workspace import Workspace

    return Workspace.open(home.expanduser().absolute())


def _known_episodes(workspace: "Workspace", chosen: list[str] | None) -> frozenset[str] | None:
    """The episodes that a person chose. Raises `UsageError` for one that isn't there, and for an archive without any."""
    known = workspace.archive.discover().episodes
    if not known:
        raise UsageError(workspace.archive.empty_message())
    for episode in chosen or ():
        if episode not in known:
            raise UsageError(f"there is no episode {episode!r}", f"the archive has {', '.join(list(known)[:10])}")
    return frozenset(chosen) if chosen else None


def _shown(path: Path) -> Path:
    """As short as it can be named from here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _shortened(text: str) -> str:
    return text if len(text) <= SEARCH_TEXT_CHARACTERS else text[: SEARCH_TEXT_CHARACTERS - 1] + "…"


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
