"""The `librarian` command. Heavy libraries are imported by the commands that need them."""

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from librarian_pipeline.errors import LibrarianError, UsageError

if TYPE_CHECKING:
    from librarian_pipeline.archive.feeds.importing import Plan
    from librarian_pipeline.workspace import Workspace

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="A podcast archive in, a measured and searchable index out.",
)

# Set by the option of the command that runs; asked where its errors arrive.
_debugging = False


def _set_debug(wanted: bool) -> None:
    global _debugging
    _debugging = wanted


Home = Annotated[Path, typer.Option(envvar="LIBRARIAN_HOME", help="The archive's folder.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_set_debug)]

DEFAULT_HOME = Path("data")
SEARCH_TEXT_CHARACTERS = 300
INTERRUPTED = 130
WORKSPACE_FILE = Path(__file__).parent.parent / "workspace.yaml"


def main() -> None:
    """The entry point: errors become one line on stderr and an exit code."""
    if len(sys.argv) == 1:
        sys.argv.append("--help")
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

    if _debugging and sys.exc_info()[0] is not None:
        traceback.print_exc()
    print_lines([f"error: {' '.join(line.split())}"], to_stderr=True)
    return code


@app.command()
def run(
    home: Home = DEFAULT_HOME,
    episode: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this episode; may be repeated.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Derive everything anew, whatever its state.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Forget episodes even if most of their files are gone.")] = False,
    debug: Debug = False,
) -> None:
    """Bring everything up to date, and print the score table."""
    from librarian_pipeline.lineage.planning import Scope
    from librarian_pipeline.run_command import run_archive

    workspace = _open(home)
    raise typer.Exit(run_archive(workspace, Scope(_known_episodes(workspace, episode), full), prune=prune, debug=debug))


@app.command("import")
def import_feed(
    feed: Annotated[str, typer.Argument(help="An RSS feed: a file, or an http or https address.")],
    home: Home = DEFAULT_HOME,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many episodes, the newest first.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be brought.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Bring the new episodes of a podcast feed into the archive."""
    from librarian_pipeline.archive.feeds.importing import plan_import, read_feed

    workspace = _open(home)
    source, parsed = read_feed(feed, workspace.settings.feeds)
    if dry_run:
        _print_plan(plan_import(source, parsed, workspace.archive, workspace.settings.feeds, limit), as_json)
        return
    with _import_lock(workspace):
        plan = plan_import(source, parsed, workspace.archive, workspace.settings.feeds, limit)
        code = _import_planned(workspace, plan, as_json)
    raise typer.Exit(code)


@contextmanager
def _import_lock(workspace: "Workspace") -> Iterator[None]:
    from filelock import FileLock, Timeout

    folder = workspace.warehouse.root
    lock = FileLock(folder / ".import.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout as error:
        raise UsageError("another import is at work on this archive", "wait until it has ended") from error
    except OSError as error:
        raise UsageError(f"{folder} can't be written ({error.strerror})", "name another archive with --home DIR") from error
    try:
        yield
    finally:
        lock.release()


def _import_planned(workspace: "Workspace", plan: "Plan", as_json: bool) -> int:
    from dataclasses import asdict

    from librarian_pipeline.archive.feeds.importing import STAGE, Importer
    from librarian_pipeline.console import print_lines, showing_progress

    with showing_progress({STAGE: plan.planned_mb}) as progress:
        report = Importer(plan, workspace.archive, progress).bring()
    if as_json:
        _print_json(asdict(report))
    else:
        print_lines(f"note: {line}" for line in report.remarks)
        print_lines([report.summary])
    failures = [f"failed: {episode}: {'; '.join(lines)}" for episode, lines in report.failed.items()]
    print_lines(failures, to_stderr=True)
    return 1 if report.failed else 0


def _print_plan(plan: "Plan", as_json: bool) -> None:
    from librarian_pipeline.console import print_lines

    if as_json:
        due = [{"id": job.episode_id, "title": job.item.title, "kinds": job.kinds, "new": job.is_new} for job in plan.jobs]
        _print_json({"due": due, "n_unchanged": plan.n_unchanged, "remarks": plan.remarks})
        return
    print_lines(f"{job.episode_id}: {', '.join(job.kinds)}: {job.item.title}" for job in plan.jobs)
    print_lines(f"note: {line}" for line in plan.remarks)
    print_lines([f"{len(plan.jobs)} would be brought ({plan.planned_mb:.1f} MB of audio), {plan.n_unchanged} unchanged"])


@app.command()
def status(home: Home = DEFAULT_HOME, as_json: Json = False, debug: Debug = False) -> None:
    """What is out of date, and why."""
    from librarian_pipeline.console import print_lines
    from librarian_pipeline.lineage.outdated import State, Verdict, verdicts

    workspace = _open(home)
    _known_episodes(workspace, None)
    found = verdicts(workspace.observe())
    if as_json:
        departed = [(item, Verdict(State.DEPARTED)) for item in workspace.departed(workspace.archive.discover())]
        _print_json(
            [
                {"asset": item.asset, "partition": item.partition, "state": verdict.state, "reasons": verdict.reasons}
                for item, verdict in [*found.items(), *departed]
            ]
        )
        return
    notable = {item: verdict for item, verdict in found.items() if verdict.state is not State.FRESH}
    print_lines(f"{item}: {verdict.state}: {'; '.join(verdict.reasons)}" for item, verdict in notable.items())
    gone = sorted({str(item.partition) for item in workspace.departed(workspace.archive.discover())})
    print_lines(f"{episode}: its files are gone, and the next run removes what was derived from them" for episode in gone)
    if not notable and not gone:
        print_lines([f"all {len(found)} outputs are up to date"])


@app.command("eval")
def evaluate(
    home: Home = DEFAULT_HOME,
    by: Annotated[Literal["language", "kind", "split"] | None, typer.Option(help="The figures of each one as well.")] = None,
    split: Annotated[Literal["dev", "test"] | None, typer.Option(help="Only the queries of this split.")] = None,
    trec: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write qrels and a run file of each mode, in TREC's formats.")
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Make this the baseline that others are held against.")] = False,
    release: Annotated[bool, typer.Option("--release", help="With --accept: this is also released.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """The score table of the current index, its gates, and how near its citations are."""
    from librarian_pipeline.checks import Severity
    from librarian_pipeline.checks.gates import is_failure
    from librarian_pipeline.console import print_gates, print_grid, print_lines, print_score_table
    from librarian_pipeline.evaluation.gold_health import gold_health
    from librarian_pipeline.evaluation.hygiene import LABELS
    from librarian_pipeline.evaluation.measure import export_stored, stored_gates, stored_score_table
    from librarian_pipeline.evaluation.score_table import detectable_lines, jump_in_grid, sliced_grid
    from librarian_pipeline.lineage.outdated import verdicts
    from librarian_pipeline.storage.schemas import DETECTABLE

    workspace = _open(home)
    if release and not accept:
        raise UsageError("--release goes with --accept", "write `librarian eval --accept --release`")
    if accept:
        from librarian_pipeline.accept_command import accept_measured

        accept_measured(workspace, release=release)
        return
    table = stored_score_table(workspace.warehouse, split)
    scores = workspace.warehouse.read("eval_scores")
    detectable = workspace.warehouse.read_all("detectable", ["all"], DETECTABLE)
    gates = stored_gates(workspace.warehouse)
    if as_json:
        caption = {"passages": table.n_passages, "episodes": table.n_episodes, "queries": table.n_queries}
        figures = {
            name: [row for row in rows.to_pylist() if split is None or split in row["slice"].split("/")]
            for name, rows in (("scores", scores), ("detectable", detectable))
        }
        _print_json({**caption, "dense": table.dense_backend, **figures, "gates": gates})
    else:
        print_score_table(table)
        if by is not None:
            print_grid(sliced_grid(scores, by, split), numbers_from=2)
        within = "jump-in: share of queries whose first citation is that near to the judged start, and the median distance"
        print_grid(jump_in_grid(scores, by, split), numbers_from=2 if by else 1, caption=within)
        print_lines(["", *told] if (told := detectable_lines(detectable, scores, split)) else [])
        print_gates(gates)
    if trec is not None:
        exported = export_stored(workspace.warehouse, trec, split)
        print_lines([f"written: {path}" for path in exported.files], to_stderr=True)
        print_lines(
            [f"left out: query {query_id!r}: no passage meets any of its spans" for query_id in exported.left_out],
            to_stderr=True,
        )
    found = [check for check in gold_health(workspace.warehouse, workspace.settings.gold) if not check.passed]
    # Of labels, a gate tells.
    print_lines([f"gold set: {check.line}" for check in found if check.name != LABELS], to_stderr=True)
    if not all(verdict.settled for verdict in verdicts(workspace.observe()).values()):
        print_lines(["note: the archive has changed since; `librarian run` measures it anew"], to_stderr=True)
    failed = any(check.severity is Severity.ERROR for check in found) or any(is_failure(gate) for gate in gates)
    raise typer.Exit(1 if failed else 0)


@app.command()
def compare(
    changes: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="KEY=VALUE[,...]", help="A candidate: what to change, such as fusion.c=10; repeatable."
        ),
    ],
    home: Home = DEFAULT_HOME,
    mode: Annotated[list[str] | None, typer.Option(help="Only this mode; may be repeated.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure other settings beside those that are set, without switching."""
    from librarian_pipeline.compare_command import compare_settings
    from librarian_pipeline.comparison.candidates import candidates_of
    from librarian_pipeline.retrieval.modes import MODES

    workspace = _open(home)
    _known_episodes(workspace, None)
    candidates = candidates_of(workspace.settings, changes)
    unknown = sorted(set(mode or ()) - set(MODES))
    if unknown:
        raise UsageError(f"there is no mode {unknown[0]!r}", f"use one of: {', '.join(MODES)}")
    modes = [name for name in MODES if not mode or name in mode]
    raise typer.Exit(compare_settings(workspace, candidates, modes, as_json_text=as_json, debug=debug))


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    home: Home = DEFAULT_HOME,
    mode: Annotated[str | None, typer.Option(help="The retrieval mode; by default, [retrieval] default_mode.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many passages.")] = 5,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Ranked, cited passages of the published index."""
    from librarian_pipeline.console import print_lines
    from librarian_pipeline.publication import difference, open_published
    from librarian_pipeline.retrieval.citations import Citer
    from librarian_pipeline.retrieval.indexing import load_searcher
    from librarian_pipeline.retrieval.search_settings import searched_with

    workspace = _open(home)
    snapshot = open_published(workspace)
    searcher = load_searcher(snapshot.tables, searched_with(workspace.settings, snapshot.manifest.search))
    citer = Citer(snapshot.tables, searcher)
    hits = [(hit, citer.cite(query, hit.passage)) for hit in searcher.search(query, mode, k)]
    if note := difference(workspace, snapshot):
        print_lines([f"note: {note}"], to_stderr=True)
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
                    "snapshot": snapshot.id,
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
def publish(
    home: Home = DEFAULT_HOME,
    rollback: Annotated[bool, typer.Option("--rollback", help="Serve the snapshot before the present one.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="Only list the snapshots that are kept.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Publish the latest index if its gates were passed, or go back."""
    from dataclasses import asdict

    from librarian_pipeline.console import print_lines
    from librarian_pipeline.publish_command import publish_candidate, published_line, roll_back, rollback_lines

    if rollback and listing:
        raise UsageError("--rollback and --list don't go together", "choose one")
    workspace = _open(home)
    if listing:
        _print_snapshots(workspace, as_json)
        return
    swap = roll_back(workspace) if rollback else publish_candidate(workspace)
    if as_json:
        _print_json(asdict(swap))
    else:
        print_lines(rollback_lines(swap, workspace) if rollback else [published_line(swap)])


def _print_snapshots(workspace: "Workspace", as_json: bool) -> None:
    from dataclasses import asdict

    from librarian_pipeline.console import print_lines, print_table
    from librarian_pipeline.publish_command import kept_snapshots

    kept = kept_snapshots(workspace)
    if as_json:
        _print_json([asdict(snapshot) for snapshot in kept])
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


@app.command()
def trace(
    asked: Annotated[
        str | None, typer.Argument(metavar="CHUNK_ID", help="A passage (ep03:t004), or a moment (ep03@08:03).")
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="ID", help="A query of the gold set instead.")] = None,
    home: Home = DEFAULT_HOME,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Where a passage, or the ranks of a gold query, come from."""
    from dataclasses import asdict

    from librarian_pipeline.console import print_lines
    from librarian_pipeline.tracing.showing import lines_of
    from librarian_pipeline.tracing.trace import trace_gold_query, trace_passages

    workspace = _open(home)
    _known_episodes(workspace, None)
    if asked is not None and query is None:
        found = trace_passages(workspace, asked)
    elif query is not None and asked is None:
        found = trace_gold_query(workspace, query)
    else:
        raise UsageError("trace takes a passage or a query", "name one: `librarian trace ep03:t004`, or --query q017")
    if as_json:
        _print_json(asdict(found))
    else:
        print_lines(lines_of(found))
    if not found.is_current:
        print_lines(["note: the archive has changed since; `librarian run` brings it up to date"], to_stderr=True)


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
        mark = "!!" if finding.problem else "? " if finding.is_warning else "ok"
        print_lines([f"{mark} {finding.subject}: {finding.problem or finding.detail}"])
    broken = sum(bool(finding.problem) for finding in found)
    print_lines(["", f"{broken} to mend" if broken else "all is well"])
    raise typer.Exit(1 if broken else 0)


@app.command()
def report(home: Home = DEFAULT_HOME, debug: Debug = False) -> None:
    """Write the report, one HTML page, and print its path."""
    from librarian_pipeline.console import print_lines
    from librarian_pipeline.reporting.report import write_report

    print_lines([str(write_report(_open(home)))])


@app.command()
def serve(
    home: Home = DEFAULT_HOME,
    warm: Annotated[
        bool, typer.Option("--warm", help="Load the index and its model now, not when they are needed.")
    ] = False,
    http: Annotated[bool, typer.Option("--http", envvar="MCP_HTTP", help="Streamable HTTP instead of stdio.")] = False,
    host: Annotated[str, typer.Option(envvar="MCP_HOST", help="Others than this machine's need MCP_TOKEN.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, envvar="MCP_PORT", help="0 takes one that is free.")] = 8765,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:PORT]", envvar="MCP_ALLOWED_HOSTS", help="A Host header to accept; may be repeated."),
    ] = None,
    debug: Debug = False,
) -> None:
    """The MCP server, for agents: on stdio, or over HTTP."""
    from librarian_pipeline.serving.mcp_server import serve

    listening = None
    if http:
        from librarian_pipeline.serving.mcp.http import Listening

        listening = Listening(host, port, tuple(allowed_host or ()), os.environ.get("MCP_TOKEN") or None)
    serve(home.expanduser().absolute(), listening, warm=warm)


@app.command()
def ui(
    home: Home = DEFAULT_HOME,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where it listens, on 127.0.0.1.")] = 3000,
    debug: Debug = False,
) -> None:
    """Dagster's web UI on this archive, with its sensors and schedules running."""
    from librarian_pipeline.defs.instance import hold_ui_lock, open_instance
    from librarian_pipeline.defs.partitions import register_episodes
    from librarian_pipeline.defs.running import close_dead_runs

    workspace = _open(home)
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


def _shortened(text: str) -> str:
    return text if len(text) <= SEARCH_TEXT_CHARACTERS else text[: SEARCH_TEXT_CHARACTERS - 1] + "…"


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
