"""The command as people run it."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from librarian_pipeline.archive.layout import Archive
from librarian_pipeline.archive.notes import read_front_matter, read_notes
from librarian_pipeline.archive.published import read_published
from librarian_pipeline_tests.archive.feeds.loopback import Loopback, ranged, status, trickling, whole
from librarian_pipeline_tests.archive.feeds.podcast import AUDIO, CHAPTERS, SRT, VTT, Entry, feed_xml
from librarian_pipeline_tests.conftest import environment, run_librarian, start_librarian
from librarian_pipeline_tests.speech.sounds import write_tone

LONG_AUDIO = AUDIO * 100


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def test_a_podcast_becomes_an_archive(server: Loopback, tmp_path: Path, home: Path) -> None:
    for number, (container, codec) in enumerate([("mp3", "mp3"), ("ogg", "libopus"), ("ipod", "aac")], 1):
        sound = write_tone(tmp_path / f"{number}", container, codec, 48_000, 1, 1.0).read_bytes()
        server.answers[f"/{number}"] = [whole(sound, Content_Type="application/octet-stream")]
    server.answers["/1.vtt"], server.answers["/2.srt"] = [whole(VTT)], [whole(SRT)]
    server.answers["/1.chapters"] = [whole(CHAPTERS)]
    entries = [
        Entry(1, "1", (("1.vtt", "text/vtt"),), "1.chapters"),
        Entry(2, "2", (("2.srt", "text/plain"),)),
        Entry(3, "3"),
    ]
    server.answers["/feed"] = [whole(feed_xml(*entries))]

    result = run_librarian("import", server.url("/feed"), "--home", str(home))
    assert (result.returncode, result.stdout) == (0, "3 new, 0 unchanged, 0 failed\n"), result.stderr
    assert result.stderr.startswith("import: ")

    found = Archive(home).discover()
    assert found.problems == ()
    assert [files.audio and files.audio.name for files in found.episodes.values()] == [
        "ep001.mp3",
        "ep002.opus",
        "ep003.m4a",
    ]
    first = found.episodes["ep001"]
    assert first.notes is not None
    assert read_front_matter(first.notes).published_at == "2024-03-01"
    assert [row["start_ms"] for row in read_notes(first.notes, "ep001")] == [None, 0, 63_000]
    formats = [read_published(files.published, "e", "en").format for files in found.episodes.values() if files.published]
    assert formats == ["vtt", "srt"]

    server.seen.clear()
    again = run_librarian("import", server.url("/feed"), "--home", str(home), "--json")
    assert json.loads(again.stdout) == {"n_unchanged": 3, "new": [], "changed": [], "failed": {}, "remarks": []}
    assert server.paths() == ["/feed"]


def test_an_episode_that_fails_is_named_and_the_exit_code_says_so(server: Loopback, home: Path) -> None:
    server.answers["/1"] = [whole(AUDIO)]
    server.answers["/2"] = [status(403)]
    server.answers["/feed"] = [whole(feed_xml(Entry(1, "1"), Entry(2, "2")))]
    result = run_librarian("import", server.url("/feed"), "--home", str(home))
    assert result.returncode == 1
    assert result.stdout == "1 new, 0 unchanged, 1 failed\n"
    [line] = [line for line in result.stderr.splitlines() if line.startswith("failed: ")]
    assert line.startswith(f"failed: ep002: audio: {server.url('/2')}: the server answers 403 Forbidden")


def test_a_dry_run_lists_what_would_be_brought_and_brings_nothing(server: Loopback, home: Path) -> None:
    server.answers["/feed"] = [whole(feed_xml(Entry(1, "1"), Entry(2, "2", title="The \x9b31m leak", length=3_000_000)))]
    result = run_librarian("import", server.url("/feed"), "--home", str(home), "--dry-run", "--limit", "1")
    assert result.returncode == 0
    assert result.stdout == "ep002: audio, notes: The \ufffd31m leak\n1 would be brought (3.0 MB of audio), 0 unchanged\n"
    assert server.paths() == ["/feed"]
    assert not home.exists()


@pytest.mark.parametrize("kind", ["missing", "folder", "atom", "404", "html", "ftp", "bad"])
def test_a_feed_that_cannot_be_read_is_one_clear_line_and_leaves_no_archive(
    server: Loopback, tmp_path: Path, home: Path, kind: str
) -> None:
    server.answers["/404"] = [status(410)]
    server.answers["/html"] = [whole(b"<!doctype html><p>hello")]
    (tmp_path / "atom").write_bytes(b'<feed xmlns="http://www.w3.org/2005/Atom"/>')
    feed = {
        "missing": str(tmp_path / "none.xml"),
        "folder": str(tmp_path),
        "atom": str(tmp_path / "atom"),
        "404": server.url("/404"),
        "html": server.url("/html"),
        "ftp": "ftp://tea.example/feed",
        "bad": "http://[tea",
    }[kind]
    result = run_librarian("import", feed, "--home", str(home))
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert not home.exists()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_an_import_that_is_ended_in_a_download_goes_on_there_with_identical_bytes(
    server: Loopback, home: Path, end: signal.Signals
) -> None:
    slow = trickling(LONG_AUDIO, [0.0] * 2 + [20.0], ETag='"v1"')
    server.answers["/1"] = [slow, ranged(LONG_AUDIO, '"v1"')]
    server.answers["/feed"] = [whole(feed_xml(Entry(1, "1")))]
    command = start_librarian("import", server.url("/feed"), "--home", str(home))
    part = home / "audio/ep001.part"
    deadline = time.monotonic() + 20
    while not (part.exists() and part.stat().st_size > len(LONG_AUDIO) // 2) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(command.pid, end)
    command.communicate(timeout=20)
    assert command.returncode == (-signal.SIGKILL if end == signal.SIGKILL else 130)
    assert sorted(path.name for path in (home / "audio").iterdir()) == [".ep001.part.json", "ep001.part"]

    came = part.stat().st_size
    result = run_librarian("import", server.url("/feed"), "--home", str(home))
    assert (result.returncode, result.stdout) == (0, "1 new, 0 unchanged, 0 failed\n")
    assert [path.name for path in (home / "audio").iterdir()] == ["ep001.mp3"]
    assert (home / "audio/ep001.mp3").read_bytes() == LONG_AUDIO
    assert server.seen[-1].headers["range"] == f"bytes={came}-"


def test_two_imports_at_once_are_refused_with_one_line(server: Loopback, home: Path) -> None:
    server.answers["/1"] = [trickling(LONG_AUDIO, [0.0, 20.0])]
    server.answers["/feed"] = [whole(feed_xml(Entry(1, "1")))]
    first = start_librarian("import", server.url("/feed"), "--home", str(home))
    deadline = time.monotonic() + 20
    while not (home / "audio/ep001.part").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    second = run_librarian("import", server.url("/feed"), "--home", str(home))
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert second.returncode == 2
    assert "another import is at work on this archive" in second.stderr


def test_the_settings_of_the_archive_bound_what_is_brought(server: Loopback, home: Path) -> None:
    server.answers["/1"] = [whole(AUDIO)]
    server.answers["/feed"] = [whole(feed_xml(Entry(1, "1")))]
    env = environment(LIBRARIAN_FEEDS__MAX_FILE_MB="0.009", LIBRARIAN_FEEDS__ATTEMPTS="1")
    result = run_librarian("import", server.url("/feed"), "--home", str(home), env=env)
    assert result.returncode == 1
    assert "raise max_file_mb in [feeds]" in result.stderr
