"""The `librarian` command: each with its options here, and what it does in a module that it imports when it is called."""

import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from librarian_pipeline.errors import LibrarianError, UsageError

if TYPE_CHECKING:
    from librarian_pipeline.evaluation.metrics import Dimension
    from librarian_pipeline.serving.library import Library
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
NO_ANSWER = 3
INTERRUPTED = 130


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
    from librarian_pipeline.import_command import import_episodes, print_plan

    workspace = _open(home)
    if dry_run:
        print_plan(workspace, feed, limit, as_json=as_json)
        return
    raise typer.Exit(import_episodes(workspace, feed, limit, as_json=as_json))


@app.command()
def status(home: Home = DEFAULT_HOME, as_json: Json = False, debug: Debug = False) -> None:
    """What is out of date, and why."""
    from librarian_pipeline.status_command import print_status

    workspace = _open(home)
    _known_episodes(workspace, None)
    print_status(workspace, as_json=as_json)


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
    azure: Annotated[
        bool, typer.Option("--azure", help="Measure the modes on Azure beside the others: costs money.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """The score table of the current index, its gates, and how near its citations are."""
    if azure:
        _evaluate_on_azure(_open(home), by, split, accept, alone=trec is None and not release, as_json=as_json)
        return
    from librarian_pipeline.accept_command import accept_measured
    from librarian_pipeline.eval_command import print_measured

    workspace = _open(home)
    if release and not accept:
        raise UsageError("--release goes with --accept", "write `librarian eval --accept --release`")
    if accept:
        accept_measured(workspace, release=release)
        return
    raise typer.Exit(print_measured(workspace, by, split, trec, as_json=as_json))


def _evaluate_on_azure(
    workspace: "Workspace", by: "Dimension | None", split: str | None, accept: bool, *, alone: bool, as_json: bool
) -> None:
    from librarian_pipeline.azure.account import require_libraries

    if not alone:
        raise UsageError("--azure goes with neither --trec nor --release", "leave one of them out")
    require_libraries()
    from librarian_pipeline.azure import eval_command
    from librarian_pipeline.console import print_json

    measured, synchronised = eval_command.evaluate_on_azure(workspace, accepting=accept)
    if as_json:
        print_json(eval_command.as_json(measured, synchronised))
    else:
        eval_command.print_measured(measured, by, split)


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
    from librarian_pipeline.search_command import print_found

    print_found(_open(home), query, mode, k, as_json=as_json)


@app.command()
def ask(
    question: Annotated[str | None, typer.Argument(help="What to answer.")] = None,
    home: Home = DEFAULT_HOME,
    mode: Annotated[str | None, typer.Option(help="The retrieval mode; by default, [retrieval] default_mode.")] = None,
    calibration: Annotated[
        bool, typer.Option("--calibrate", help="Measure false answers and false refusals on the gold set instead.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Quotes of the published index that answer a question, or why there are none; exit code 3 for that."""
    from dataclasses import asdict

    from librarian_pipeline.answering.asking import ask as answer_to
    from librarian_pipeline.answering.showing import answer_lines, aside_lines
    from librarian_pipeline.console import print_json, print_lines
    from librarian_pipeline.publication import difference
    from librarian_pipeline.serving.library import Library

    if calibration == (question is not None):
        raise UsageError("ask takes a question, or --calibrate", 'write `librarian ask "..."`')
    workspace = _open(home)
    library, settings = Library(workspace), workspace.settings.answers
    if question is None:
        _print_calibration(library, mode, as_json)
        return
    answer, note = library.carry_out(
        lambda edition: (answer_to(edition, question, mode, settings), difference(workspace, edition.snapshot))
    )
    if as_json:
        print_json(asdict(answer))
    else:
        print_lines(answer_lines(answer))
    print_lines([*aside_lines(answer), *([f"note: {note}"] if note else [])], to_stderr=True)
    raise typer.Exit(NO_ANSWER if answer.status == "refused" else 0)


def _print_calibration(library: "Library", mode: str | None, as_json: bool) -> None:
    from dataclasses import asdict

    from librarian_pipeline.answering.calibration import calibrate, calibration_rows, threshold_lines
    from librarian_pipeline.console import print_json, print_lines, print_table, showing_progress

    with showing_progress({}) as progress:
        measured = library.carry_out(
            lambda edition: calibrate(
                edition,
                mode,
                library.workspace.settings.answers,
                lambda done, total: progress.report("calibrating", "gold set", done, total, "queries"),
            )
        )
    if as_json:
        print_json(asdict(measured))
        return
    print_table(["split", "", "count", "share", "95 % interval"], calibration_rows(measured), numbers_from=2)
    print_lines(["", *threshold_lines(measured)])


@app.command()
def publish(
    home: Home = DEFAULT_HOME,
    rollback: Annotated[bool, typer.Option("--rollback", help="Serve the snapshot before the present one.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="Only list the snapshots that are kept.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Publish the latest index if its gates were passed, or go back."""
    from librarian_pipeline.publish_command import print_kept, print_published, print_rolled_back

    if rollback and listing:
        raise UsageError("--rollback and --list don't go together", "choose one")
    chosen = print_kept if listing else print_rolled_back if rollback else print_published
    chosen(_open(home), as_json=as_json)


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
    from librarian_pipeline.trace_command import print_trace

    workspace = _open(home)
    _known_episodes(workspace, None)
    print_trace(workspace, asked, query, as_json=as_json)


@app.command()
def episodes(home: Home = DEFAULT_HOME, as_json: Json = False, debug: Debug = False) -> None:
    """The catalogue."""
    from librarian_pipeline.episodes_command import print_catalogue

    print_catalogue(_open(home), as_json=as_json)


@app.command()
def models(home: Home = DEFAULT_HOME, debug: Debug = False) -> None:
    """Each model in use, where its weights come from, its digest checked."""
    from librarian_pipeline.models_command import print_models

    print_models(_open(home).settings)


@app.command()
def doctor(home: Home = DEFAULT_HOME, debug: Debug = False) -> None:
    """What is missing or broken on this machine or in this archive, and what to do."""
    from librarian_pipeline.doctor import print_findings

    raise typer.Exit(print_findings(home.expanduser().absolute()))


@app.command()
def report(home: Home = DEFAULT_HOME, debug: Debug = False) -> None:
    """Write the report, one HTML page, and print its path."""
    from librarian_pipeline.console import print_lines
    from librarian_pipeline.reporting.report import write_report

    print_lines([str(write_report(_open(home)))])


@app.command()
def demo(home: Home = DEFAULT_HOME, debug: Debug = False) -> None:
    """Asks what the files in demos/ ask, and shows whether the published index finds what they promise."""
    from librarian_pipeline.console import print_lines
    from librarian_pipeline.demo.playing import play
    from librarian_pipeline.demo.script import read_demos
    from librarian_pipeline.demo.showing import lines_of
    from librarian_pipeline.serving.library import Library

    workspace = _open(home)
    demos = read_demos(workspace.home / "demos")
    shown = Library(workspace).carry_out(lambda edition: [play(demo, edition) for demo in demos])
    for number, showing in enumerate(shown, start=1):
        print_lines(lines_of(showing, number))
    raise typer.Exit(0 if all(showing.kept for showing in shown) else 1)


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
    from librarian_pipeline.ui_command import become_ui

    become_ui(_open(home), port)


@app.command()
def web(
    home: Home = DEFAULT_HOME,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where it listens, on 127.0.0.1.")] = 8766,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the browser, too.")] = False,
    debug: Debug = False,
) -> None:
    """A local web page to search, read and listen."""
    from librarian_pipeline.web.server import serve_pages

    serve_pages(_open(home), port, open_browser=open_browser)


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
