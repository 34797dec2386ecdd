"""What `librarian import` does: brings the new episodes of a feed into the archive, or lists what it would bring."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from filelock import FileLock, Timeout

from librarian_pipeline.archive.feeds.importing import STAGE, Importer, Plan, plan_import, read_feed
from librarian_pipeline.console import print_json, print_lines, showing_progress
from librarian_pipeline.errors import UsageError
from librarian_pipeline.workspace import Workspace


def import_episodes(workspace: Workspace, feed: str, limit: int | None, *, as_json: bool) -> int:
    """Brings at most `limit` episodes, the newest first, and returns the exit code: 1 if one failed.

    Raises `UsageError` where another import is at work, and `LibrarianError` for a feed that can't be read.
    """
    settings = workspace.settings.feeds
    source, parsed = read_feed(feed, settings)
    with _import_lock(workspace):
        plan = plan_import(source, parsed, workspace.archive, settings, limit)
        return _bring(workspace, plan, as_json)


def print_plan(workspace: Workspace, feed: str, limit: int | None, *, as_json: bool) -> None:
    """What `import_episodes` would bring."""
    settings = workspace.settings.feeds
    source, parsed = read_feed(feed, settings)
    plan = plan_import(source, parsed, workspace.archive, settings, limit)
    if as_json:
        due = [{"id": job.episode_id, "title": job.item.title, "kinds": job.kinds, "new": job.is_new} for job in plan.jobs]
        print_json({"due": due, "n_unchanged": plan.n_unchanged, "remarks": plan.remarks})
        return
    print_lines(f"{job.episode_id}: {', '.join(job.kinds)}: {job.item.title}" for job in plan.jobs)
    print_lines(f"note: {line}" for line in plan.remarks)
    print_lines([f"{len(plan.jobs)} would be brought ({plan.planned_mb:.1f} MB of audio), {plan.n_unchanged} unchanged"])


@contextmanager
def _import_lock(workspace: Workspace) -> Iterator[None]:
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


def _bring(workspace: Workspace, plan: Plan, as_json: bool) -> int:
    with showing_progress({STAGE: plan.planned_mb}) as progress:
        report = Importer(plan, workspace.archive, progress).bring()
    if as_json:
        print_json(asdict(report))
    else:
        print_lines(f"note: {line}" for line in report.remarks)
        print_lines([report.summary])
    failures = [f"failed: {episode}: {'; '.join(lines)}" for episode, lines in report.failed.items()]
    print_lines(failures, to_stderr=True)
    return 1 if report.failed else 0
