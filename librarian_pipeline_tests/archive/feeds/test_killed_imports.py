"""An import may be killed at any step: the next one ends where an undisturbed one does, and knows its own files."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from librarian_pipeline.archive.feeds.download import PartFile
from librarian_pipeline.archive.feeds.importing import ImportReport
from librarian_pipeline.archive.feeds.ledger import Ledger
from librarian_pipeline_tests.archive.feeds.podcast import AUDIO, CHAPTERS, SRT, VTT, Entry, feed_xml
from librarian_pipeline_tests.archive.feeds.test_importing import OTHER_AUDIO, bring

# Everything that changes what is on the disk under a name.
STEPS: tuple[tuple[Any, str], ...] = (
    (PartFile, "publish"),
    (Ledger, "save"),
    *((Path, name) for name in ("replace", "unlink", "touch", "mkdir", "write_text")),
    (os, "fsync"),
)
FILES = {"a.mp3": AUDIO, "b.flac": OTHER_AUDIO, "c.mp3": AUDIO * 2, "d.mp3": AUDIO * 3, "a.vtt": VTT, "b.srt": SRT}
FILES |= {"c.vtt": VTT + b"\n", "d.vtt": VTT + b"\n\n", "chapters": CHAPTERS}
# New suffixes that come before and after the old one in the archive's order, and the same one with other content.
VERSIONS = (
    Entry(3, "a.mp3", (("a.vtt", "text/vtt"),), "chapters", title="The kettle"),
    Entry(3, "b.flac", (("b.srt", "application/x-subrip"),), "chapters", title="The kettle, mended"),
    Entry(3, "c.mp3", (("c.vtt", "text/vtt"),), "chapters", title="The kettle, gone"),
    Entry(3, "d.mp3", (("d.vtt", "text/vtt"),), "chapters", title="The kettle, back"),
)


class KilledError(BaseException):
    """Nobody catches it, as nobody catches a kill."""


@pytest.fixture
def feeds(tmp_path: Path) -> list[str]:
    """The feed as it is at first, and as it becomes."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    for number, entry in enumerate(VERSIONS):
        (tmp_path / f"{number}.xml").write_bytes(feed_xml(entry))
    return [str(tmp_path / f"{number}.xml") for number in range(len(VERSIONS))]


@contextmanager
def killed_at(number: int | None) -> Iterator[list[str]]:
    """Kills before the step of that number, counting the end of each step as one too; gives the steps that were come to."""
    seen: list[str] = []

    def come_to(step: str) -> None:
        if len(seen) == number:
            raise KilledError(step)
        seen.append(step)

    def watched(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        @wraps(function)
        def step(*args: Any, **options: Any) -> Any:
            come_to(f"before {name}")
            result = function(*args, **options)
            come_to(f"after {name}")
            return result

        return step

    with pytest.MonkeyPatch.context() as patched:
        for owner, name in STEPS:
            patched.setattr(owner, name, watched(getattr(owner, name), name))
        yield seen


def state(home: Path) -> dict[str, bytes]:
    """All of an archive, with what is hidden, and with the ledger."""
    return {path.relative_to(home).as_posix(): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def finished(home: Path) -> dict[str, bytes]:
    """The episodes' files, without the beginnings of others."""
    return {name: content for name, content in state(home).items() if Path(name).suffix not in (".json", ".part", ".tmp")}


def bring_all(feeds: list[str], home: Path) -> None:
    for feed in feeds:
        bring(feed, home)


def assert_brought(report: ImportReport) -> None:
    assert report.failed == {}
    assert report.remarks == []


@pytest.mark.parametrize("n_before", range(len(VERSIONS) - 1))
@pytest.mark.parametrize("goes_on", ["with the same feed", "with a changed one"])
def test_wherever_an_import_is_killed_the_next_ends_where_an_undisturbed_one_does(
    feeds: list[str], tmp_path: Path, n_before: int, goes_on: str
) -> None:
    before, killed = feeds[:n_before], feeds[n_before]
    then = feeds[n_before] if goes_on == "with the same feed" else feeds[n_before + 1]
    bring_all([*before, then], tmp_path / "undisturbed")
    expected = state(tmp_path / "undisturbed")
    bring_all(before, tmp_path / "counted")
    with killed_at(None) as steps:
        bring(killed, tmp_path / "counted")
    assert {"after publish", "after save", "after replace"} <= set(steps)
    for number, step in enumerate(steps):
        home = tmp_path / f"killed{number}"
        bring_all(before, home)
        with killed_at(number), pytest.raises(KilledError):
            bring(killed, home)
        assert_brought(bring(then, home))
        assert state(home) == expected, step
        assert bring(then, home).summary == "0 new, 1 unchanged, 0 failed"


@pytest.mark.parametrize("n_before", range(1, len(VERSIONS)))
def test_a_feed_that_goes_back_to_what_it_was_before_the_kill_gets_its_files_back(
    feeds: list[str], tmp_path: Path, n_before: int
) -> None:
    before, killed = feeds[:n_before], feeds[n_before]
    bring_all(before, tmp_path / "undisturbed")
    with killed_at(None) as steps:
        bring(killed, tmp_path / "undisturbed")
    bring_all(before[-1:], tmp_path / "undisturbed")
    expected = finished(tmp_path / "undisturbed")
    for number, step in enumerate(steps):
        home = tmp_path / f"killed{number}"
        bring_all(before, home)
        with killed_at(number), pytest.raises(KilledError):
            bring(killed, home)
        assert_brought(bring(before[-1], home))
        assert finished(home) == expected, step


KILLED_PROCESS = """
import os, signal, sys
from pathlib import Path
from librarian_pipeline.archive.feeds import importing
from librarian_pipeline_tests.archive.feeds.test_importing import bring

feed, home, awaited = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
save = importing.Ledger.save

def save_or_die(ledger):
    if awaited.exists():
        os.kill(os.getpid(), signal.SIGKILL)
    save(ledger)

importing.Ledger.save = save_or_die
bring(feed, home)
"""


@pytest.mark.parametrize("file", ["audio/ep003.mp3", "transcripts/ep003.vtt", "notes/ep003.md"])
def test_a_file_that_got_its_name_before_the_kill_is_ours_and_a_later_change_comes(
    feeds: list[str], tmp_path: Path, file: str
) -> None:
    home = tmp_path / "archive"
    arguments = [sys.executable, "-c", KILLED_PROCESS, feeds[0], str(home), str(home / file)]
    ended = subprocess.run(arguments, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, check=False)
    assert ended.returncode == -signal.SIGKILL
    mtime_ns = (home / file).stat().st_mtime_ns
    again = bring(feeds[0], home)
    assert_brought(again)
    assert again.new + again.changed == ["ep003"]
    assert (home / file).stat().st_mtime_ns == mtime_ns
    later = bring(feeds[2], home)
    assert_brought(later)
    assert later.changed == ["ep003"]
    assert (home / "audio/ep003.mp3").read_bytes() == FILES["c.mp3"]
    assert (home / "transcripts/ep003.vtt").read_bytes() == FILES["c.vtt"]
    assert "The kettle, gone" in (home / "notes/ep003.md").read_text()


def test_a_file_that_was_edited_after_the_kill_is_left_as_it_is(feeds: list[str], tmp_path: Path) -> None:
    home = tmp_path / "archive"
    with killed_at(None) as steps:
        bring(feeds[0], tmp_path / "counted")
    with killed_at(steps.index("after publish")), pytest.raises(KilledError):
        bring(feeds[0], home)
    (home / "audio/ep003.mp3").write_bytes(b"my own")
    assert bring(feeds[0], home).remarks == ["audio/ep003.mp3 was put there or edited by hand: left as it is"]
    assert (home / "audio/ep003.mp3").read_bytes() == b"my own"
