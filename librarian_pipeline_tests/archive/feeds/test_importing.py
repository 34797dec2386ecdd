import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from librarian_pipeline.archive.feeds import sources
from librarian_pipeline.archive.feeds.importing import Importer, ImportReport, Plan, plan_import, read_feed
from librarian_pipeline.archive.layout import Archive
from librarian_pipeline.archive.notes import read_notes
from librarian_pipeline.console import LineProgress
from librarian_pipeline.errors import LibrarianError, UsageError
from librarian_pipeline.settings import FeedSettings
from librarian_pipeline_tests.archive.feeds.loopback import Loopback, chunked, cut, ranged, redirect, status, whole
from librarian_pipeline_tests.archive.feeds.podcast import AUDIO, CHAPTERS, JSON, SRT, VTT, Entry, feed_xml

SETTINGS = FeedSettings(timeout_s=5, attempts=1)
OTHER_AUDIO = b"fLaC" + AUDIO

Bring = Callable[..., ImportReport]


def files(home: Path) -> set[str]:
    return {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()} - {"import.json"}


def plan(feed: str, home: Path, settings: FeedSettings = SETTINGS, limit: int | None = None) -> Plan:
    return plan_import(*read_feed(feed, settings), Archive(home), settings, limit)


def bring(feed: str, home: Path, settings: FeedSettings = SETTINGS, limit: int | None = None) -> ImportReport:
    return Importer(plan(feed, home, settings, limit), Archive(home), LineProgress({})).bring()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def serve(server: Loopback) -> Callable[..., str]:
    """Serves a feed of these entries; returns its address."""

    def serve(*entries: Entry) -> str:
        server.answers["/feed.xml"] = [whole(feed_xml(*entries), Content_Type="application/rss+xml")]
        return server.url("/feed.xml")

    server.answers["/3.mp3"] = [whole(AUDIO, ETag='"v1"', Content_Type="audio/mpeg")]
    server.answers["/4.mp3"] = [whole(AUDIO)]
    server.answers["/3.vtt"] = [whole(VTT)]
    server.answers["/3.srt"] = [whole(SRT)]
    server.answers["/3.json"] = [whole(JSON)]
    server.answers["/3.chapters"] = [whole(CHAPTERS)]
    return serve


FULL = Entry(3, "3.mp3", (("3.vtt", "text/vtt"),), "3.chapters")
PLAIN = Entry(4, "4.mp3")


def test_audio_transcript_chapters_and_notes_come_into_their_folders(serve: Callable[..., str], home: Path) -> None:
    report = bring(serve(FULL), home)
    assert report.summary == "1 new, 0 unchanged, 0 failed"
    assert files(home) == {"audio/ep003.mp3", "transcripts/ep003.vtt", "notes/ep003.md"}
    assert (home / "audio/ep003.mp3").read_bytes() == AUDIO
    assert (home / "transcripts/ep003.vtt").read_bytes() == VTT
    sections = [(row["heading"], row["start_ms"], row["text"]) for row in read_notes(home / "notes/ep003.md", "ep003")]
    assert sections == [(None, None, "All about tea."), ("Start", 0, ""), ("The leak", 63_000, "")]
    assert Archive(home).discover().problems == ()


def test_a_second_import_costs_only_the_request_for_the_feed(
    serve: Callable[..., str], server: Loopback, home: Path
) -> None:
    feed = serve(FULL, PLAIN)
    bring(feed, home)
    before = {name: (home / name).stat().st_mtime_ns for name in files(home) | {"import.json"}}
    server.seen.clear()
    assert bring(feed, home).summary == "0 new, 2 unchanged, 0 failed"
    assert server.paths() == ["/feed.xml"]
    assert {name: (home / name).stat().st_mtime_ns for name in before} == before


def test_only_what_is_new_is_brought(serve: Callable[..., str], server: Loopback, home: Path) -> None:
    bring(serve(FULL), home)
    server.seen.clear()
    assert bring(serve(PLAIN, FULL), home).summary == "1 new, 1 unchanged, 0 failed"
    assert server.paths() == ["/feed.xml", "/4.mp3"]


def test_a_changed_address_brings_the_audio_again_in_place_of_the_old(
    serve: Callable[..., str], server: Loopback, home: Path
) -> None:
    bring(serve(FULL), home)
    server.answers["/3-new"] = [whole(OTHER_AUDIO)]
    server.seen.clear()
    assert bring(serve(replace(FULL, audio="3-new")), home).changed == ["ep003"]
    assert server.paths() == ["/feed.xml", "/3-new"]
    assert files(home) == {"audio/ep003.flac", "transcripts/ep003.vtt", "notes/ep003.md"}


def test_an_item_that_left_the_feed_stays_in_the_archive_and_keeps_its_id(serve: Callable[..., str], home: Path) -> None:
    bring(serve(FULL), home)
    bring(serve(PLAIN), home)
    assert {"audio/ep003.mp3", "transcripts/ep003.vtt", "notes/ep003.md", "audio/ep004.mp3"} <= files(home)
    assert bring(serve(FULL, PLAIN), home).n_unchanged == 2


def test_a_file_that_was_deleted_is_brought_again(serve: Callable[..., str], server: Loopback, home: Path) -> None:
    feed = serve(FULL)
    bring(feed, home)
    (home / "audio/ep003.mp3").unlink()
    server.seen.clear()
    assert bring(feed, home).changed == ["ep003"]
    assert server.paths() == ["/feed.xml", "/3.mp3"]


def test_changed_notes_of_the_feed_are_written_anew(serve: Callable[..., str], home: Path) -> None:
    bring(serve(FULL), home)
    assert bring(serve(replace(FULL, title="The kettle, mended")), home).changed == ["ep003"]
    assert "The kettle, mended" in (home / "notes/ep003.md").read_text()


def test_notes_that_a_person_edited_are_left_as_they_are_and_that_is_said_once(
    serve: Callable[..., str], home: Path
) -> None:
    bring(serve(FULL), home)
    (home / "notes/ep003.md").write_text("my own")
    changed = serve(replace(FULL, title="The kettle, mended"))
    report = bring(changed, home)
    assert report.remarks == ["notes/ep003.md was put there or edited by hand: left as it is"]
    assert report.summary == "0 new, 1 unchanged, 0 failed"
    assert bring(changed, home).remarks == []
    assert (home / "notes/ep003.md").read_text() == "my own"


def test_audio_that_a_person_replaced_is_left_as_it_is(serve: Callable[..., str], server: Loopback, home: Path) -> None:
    bring(serve(FULL), home)
    (home / "audio/ep003.mp3").unlink()
    (home / "audio/ep003.opus").write_bytes(b"my own")
    report = bring(serve(replace(FULL, audio="4.mp3")), home)
    assert report.remarks == ["audio/ep003.opus was put there or edited by hand: left as it is"]
    assert report.changed == []
    assert report.n_unchanged == 1
    assert (home / "audio/ep003.opus").read_bytes() == b"my own"


def test_an_episode_that_a_person_put_there_keeps_its_files(serve: Callable[..., str], home: Path) -> None:
    (home / "audio").mkdir(parents=True)
    (home / "audio/EP003.wav").write_bytes(b"my own")
    [job] = plan(serve(FULL), home).jobs
    assert job.episode_id.startswith("ep003-")
    bring(serve(FULL), home)
    assert (home / "audio/EP003.wav").read_bytes() == b"my own"
    assert Archive(home).discover().problems == ()


@pytest.mark.parametrize(
    ("tags", "taken"),
    [
        ((("3.srt", "application/x-subrip"), ("3.vtt", "text/vtt"), ("3.json", "application/json")), "ep003.json"),
        ((("3.srt", "application/x-subrip"), ("gone.json", "application/json"), ("3.vtt", "text/vtt")), "ep003.vtt"),
        ((("3.mp3", "text/vtt"), ("3.srt", "application/x-subrip")), "ep003.srt"),
        ((("3.srt", "text/vtt"),), "ep003.srt"),
    ],
)
def test_the_best_transcript_that_can_be_had_and_read_is_taken_under_the_suffix_of_its_content(
    serve: Callable[..., str], home: Path, tags: tuple[tuple[str, str], ...], taken: str
) -> None:
    report = bring(serve(replace(FULL, transcripts=tags)), home)
    assert report.failed == {}
    assert {name for name in files(home) if name.startswith("transcripts/")} == {f"transcripts/{taken}"}
    assert len(report.remarks) == (1 if "gone" in str(tags) or "3.mp3" in str(tags) else 0)


def test_an_episode_whose_transcripts_all_fail_is_reported_and_tried_again(
    serve: Callable[..., str], server: Loopback, home: Path
) -> None:
    server.answers["/late.vtt"] = [status(404), whole(VTT)]
    feed = serve(replace(FULL, transcripts=(("late.vtt", "text/vtt"),)))
    [line] = bring(feed, home).failed["ep003"]
    assert line.startswith("transcript: http://127.0.0.1")
    assert bring(feed, home).changed == ["ep003"]
    assert "transcripts/ep003.vtt" in files(home)


def test_transcripts_without_times_are_reported_as_skipped(serve: Callable[..., str], home: Path) -> None:
    tags = (("3.html", "text/html"), ("3.txt", "text/plain"), ("3.vtt", "text/vtt"))
    assert bring(serve(replace(FULL, transcripts=tags)), home).remarks == [
        "transcripts of the type text/html have no times: 1 skipped",
        "transcripts of the type text/plain have no times: 1 skipped",
    ]


def test_a_web_page_instead_of_audio_is_refused_and_the_other_episodes_come(
    serve: Callable[..., str], server: Loopback, home: Path
) -> None:
    server.answers["/4.mp3"] = [whole(b"<!doctype html><p>please log in", Content_Type="audio/mpeg")]
    report = bring(serve(PLAIN, FULL), home)
    assert (report.new, list(report.failed)) == (["ep003"], ["ep004"])
    assert "gives a web page instead of audio" in report.failed["ep004"][0]
    assert "audio/ep004.mp3" not in files(home)
    assert "audio/ep004.part" not in files(home)


@pytest.mark.parametrize("content", [b"", b"\0" * 600])
def test_what_is_no_audio_by_any_sign_is_refused(
    serve: Callable[..., str], server: Loopback, home: Path, content: bytes
) -> None:
    server.answers["/get"] = [whole(content)]
    text = feed_xml(replace(PLAIN, audio="get")).replace(b'type="audio/mpeg"', b'type=""')
    server.answers["/feed.xml"] = [whole(text)]
    [line] = bring(server.url("/feed.xml"), home).failed["ep004"]
    assert "instead of audio" in line


def test_audio_that_is_served_as_a_web_page_is_taken_for_what_it_is(
    serve: Callable[..., str], server: Loopback, home: Path
) -> None:
    server.answers["/4.mp3"] = [whole(OTHER_AUDIO, Content_Type="text/html")]
    bring(serve(PLAIN), home)
    assert "audio/ep004.flac" in files(home)


def test_a_cut_download_is_reported_and_the_next_import_goes_on_there(
    serve: Callable[..., str], server: Loopback, home: Path
) -> None:
    server.answers["/4.mp3"] = [cut(AUDIO, 5_000, ETag='"v1"'), ranged(AUDIO, '"v1"')]
    feed = serve(PLAIN)
    assert "cut after 5000 of" in bring(feed, home).failed["ep004"][0]
    assert "audio/ep004.part" in files(home)
    assert list(Archive(home).discover().episodes) == ["ep004"]
    assert bring(feed, home).changed == ["ep004"]
    assert (home / "audio/ep004.mp3").read_bytes() == AUDIO
    assert [seen.headers.get("range") for seen in server.seen if seen.path == "/4.mp3"] == [None, "bytes=5000-"]
    assert Archive(home).discover().problems == ()


def test_a_file_above_the_size_limit_of_the_settings_is_refused(
    serve: Callable[..., str], server: Loopback, home: Path
) -> None:
    server.answers["/4.mp3"] = [chunked(AUDIO)]
    limit = SETTINGS.model_copy(update={"max_file_mb": 0.005})
    assert "larger than the 0.005 MB" in bring(serve(PLAIN), home, limit).failed["ep004"][0]


def test_chapters_that_fail_leave_notes_without_them_until_the_next_import(
    serve: Callable[..., str], server: Loopback, home: Path
) -> None:
    server.answers["/3.chapters"] = [status(403), whole(b"[]"), whole(CHAPTERS)]
    feed = serve(FULL)
    assert "chapters: " in bring(feed, home).failed["ep003"][0]
    assert "The leak" not in (home / "notes/ep003.md").read_text()
    assert "chapters: JSON without a list" in bring(feed, home).failed["ep003"][0]
    assert bring(feed, home).changed == ["ep003"]
    assert "The leak" in (home / "notes/ep003.md").read_text()


def test_items_without_audio_and_with_the_guid_of_another_are_told(serve: Callable[..., str], home: Path) -> None:
    report = bring(serve(FULL, replace(PLAIN, guid="https://tea.example/?p=3"), replace(PLAIN, audio=None)), home)
    assert report.new == ["ep003"]
    assert report.remarks == [
        "1 more of the feed's items have the guid of another, https://tea.example/?p=3: the first is taken",
        "1 of the feed's items have neither audio nor a transcript: not taken",
    ]


def test_an_item_with_a_transcript_only_is_an_episode(serve: Callable[..., str], home: Path) -> None:
    bring(serve(replace(FULL, audio=None)), home)
    assert files(home) == {"transcripts/ep003.vtt", "notes/ep003.md"}


def test_a_limit_takes_the_newest_and_the_next_import_those_before_them(serve: Callable[..., str], home: Path) -> None:
    feed = serve(FULL, PLAIN)
    assert bring(feed, home, limit=1).new == ["ep004"]
    assert bring(feed, home, limit=1).new == ["ep003"]


def test_a_feed_with_more_episodes_than_the_settings_allow_is_cut_to_the_newest(
    serve: Callable[..., str], home: Path
) -> None:
    report = bring(serve(FULL, PLAIN), home, SETTINGS.model_copy(update={"max_episodes": 1}))
    assert report.new == ["ep004"]
    assert "the feed has 2 episodes: the newest 1 are taken" in report.remarks[0]


def test_a_plan_changes_nothing_and_asks_only_for_the_feed(serve: Callable[..., str], server: Loopback, home: Path) -> None:
    [job] = plan(serve(FULL), home).jobs
    assert (job.episode_id, job.kinds, job.audio_bytes) == ("ep003", ("audio", "transcript", "notes"), len(AUDIO))
    assert server.paths() == ["/feed.xml"]
    assert not home.exists()


@pytest.mark.parametrize("audio", ["file:///etc/hostname", "ftp://h/a.mp3", "http://[bad/a.mp3", "data:audio/mpeg,x"])
def test_a_remote_feed_leads_to_http_only(serve: Callable[..., str], home: Path, audio: str) -> None:
    assert list(bring(serve(replace(PLAIN, audio=audio)), home).failed) == ["ep004"]
    assert files(home) == {"notes/ep004.md"}


def test_the_password_of_a_feed_is_used_for_its_files_and_noted_nowhere(
    serve: Callable[..., str], server: Loopback, home: Path
) -> None:
    server.answers["/4.mp3"] = [cut(AUDIO, 5_000, ETag='"v1"'), ranged(AUDIO, '"v1"')]
    feed = serve(PLAIN).replace("//", "//anna:secret@")
    assert "secret" not in str(bring(feed, home).failed)
    noted = [path for path in home.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
    assert bring(feed, home).failed == {}
    assert "secret" not in (home / "import.json").read_text()
    assert noted == []
    assert all("authorization" in seen.headers for seen in server.seen)


def test_a_remote_feed_cannot_be_redirected_to_a_file(server: Loopback, home: Path) -> None:
    server.answers["/feed.xml"] = [redirect("file:///etc/hostname")]
    with pytest.raises(UsageError, match="only http and https"):
        bring(server.url("/feed.xml"), home)


# Feeds in files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "feed"
    (folder / "files").mkdir(parents=True)
    (folder / "files/the 3rd.mp3").write_bytes(AUDIO)
    (folder / "files/3.vtt").write_bytes(VTT)
    (folder / "files/3.chapters").write_bytes(CHAPTERS)
    (tmp_path / "secret.mp3").write_bytes(AUDIO)
    (folder / "files/link.mp3").symlink_to(tmp_path / "secret.mp3")
    return folder


def write_feed(folder: Path, *entries: Entry) -> str:
    (folder / "feed.xml").write_bytes(feed_xml(*entries))
    return str(folder / "feed.xml")


@pytest.mark.parametrize("audio", ["files/the 3rd.mp3", "files/the%203rd.mp3", "./files/../files/the 3rd.mp3", "file:"])
def test_a_feed_in_a_file_may_lead_to_files_in_its_folder(folder: Path, home: Path, audio: str) -> None:
    audio = (folder / "files/the 3rd.mp3").as_uri() if audio == "file:" else audio
    feed = write_feed(folder, replace(FULL, audio=audio, transcripts=(("files/3.vtt", ""),), chapters="files/3.chapters"))
    report = bring(feed, home)
    assert report.failed == {}
    assert (home / "audio/ep003.mp3").read_bytes() == AUDIO
    assert files(home) == {"audio/ep003.mp3", "transcripts/ep003.vtt", "notes/ep003.md"}
    assert "The leak" in (home / "notes/ep003.md").read_text()
    assert bring(feed, home).n_unchanged == 1


def test_a_feed_in_a_file_may_lead_to_the_web(folder: Path, server: Loopback, home: Path, serve: Callable[..., str]) -> None:
    assert bring(write_feed(folder, replace(PLAIN, audio=server.url("/4.mp3"))), home).new == ["ep004"]


@pytest.mark.parametrize(
    "audio",
    [
        "../secret.mp3",
        "files/../../secret.mp3",
        "%2e%2e/secret.mp3",
        "files/link.mp3",
        "/etc/hostname",
        "file:///etc/hostname",
        "file://other/files/3.mp3",
        "//other/files/3.mp3",
        "ftp://h/3.mp3",
        "a%00b.mp3",
        "files",
        "gone.mp3",
        "http://[bad",
    ],
)
def test_a_feed_in_a_file_leads_to_no_other_files(folder: Path, home: Path, audio: str) -> None:
    assert list(bring(write_feed(folder, replace(PLAIN, audio=audio)), home).failed) == ["ep004"]
    assert files(home) == {"notes/ep004.md"}


def test_a_file_address_of_another_machine_is_not_taken_for_one_of_this(folder: Path, home: Path) -> None:
    audio = (folder / "files/the 3rd.mp3").as_uri().replace("file://", "file://other")
    assert list(bring(write_feed(folder, replace(PLAIN, audio=audio)), home).failed) == ["ep004"]


def test_a_file_beside_the_feed_that_is_too_large_is_refused(folder: Path, home: Path) -> None:
    feed = write_feed(folder, replace(PLAIN, audio="files/the 3rd.mp3"))
    limit = SETTINGS.model_copy(update={"max_file_mb": 0.005})
    assert "larger than the 0.005 MB" in bring(feed, home, limit).failed["ep004"][0]
    assert files(home) == {"notes/ep004.md"}


def test_a_chapters_file_that_is_too_large_does_not_end_the_import(
    folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = replace(FULL, audio="files/the 3rd.mp3", transcripts=(), chapters="files/big")
    feed = write_feed(folder, entry, replace(entry, number=4, chapters=None))
    (folder / "files/big").write_bytes(b" " * 5_000)
    monkeypatch.setattr(sources, "MAX_DOCUMENT_BYTES", 4_000)
    report = bring(feed, home)
    assert (report.new, list(report.failed)) == (["ep004"], ["ep003"])
    assert "notes/ep003.md" in files(home)


# The ledger, and what was there before


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"version": 2, "episodes": {}}', '{"version": 1, "episodes": {"k": 1}}'],
)
def test_a_damaged_ledger_is_not_started_anew(serve: Callable[..., str], home: Path, text: str) -> None:
    home.mkdir()
    (home / "import.json").write_text(text)
    with pytest.raises(UsageError, match=r"import.json is damaged: restore it"):
        bring(serve(FULL), home)
    assert (home / "import.json").read_text() == text


def test_a_ledger_cannot_lead_out_of_the_archive(serve: Callable[..., str], home: Path) -> None:
    bring(serve(FULL), home)
    ledger = home / "import.json"
    ledger.write_text(ledger.read_text().replace('"id": "ep003"', '"id": "../ep003"'))
    with pytest.raises(UsageError, match="damaged"):
        bring(serve(FULL), home)


def test_a_ledger_without_announced_files_is_read(serve: Callable[..., str], home: Path) -> None:
    bring(serve(FULL), home)
    ledger = json.loads((home / "import.json").read_text())
    for episode in ledger["episodes"].values():
        assert episode.pop("coming") == {}
    (home / "import.json").write_text(json.dumps(ledger))
    assert bring(serve(FULL), home).summary == "0 new, 1 unchanged, 0 failed"


def test_an_archive_that_cannot_be_written_is_one_clear_error(serve: Callable[..., str], home: Path) -> None:
    home.mkdir()
    (home / "audio").write_bytes(b"not a folder")
    with pytest.raises(LibrarianError, match="can't be written"):
        bring(serve(FULL), home)


def test_ten_thousand_episodes_are_planned_quickly(folder: Path, home: Path) -> None:
    feed = write_feed(
        folder, *(replace(PLAIN, number=number % 28 + 1, guid=f"https://tea.example/{number}") for number in range(10_000))
    )
    started = time.monotonic()
    jobs = plan(feed, home).jobs
    assert len({job.episode_id for job in jobs}) == 10_000
    assert time.monotonic() - started < 10
