import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.archive.layout import Archive, SourceProblem
from librarian_pipeline.errors import UsageError


def archive_with(home: Path, *names: str) -> Archive:
    for name in names:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return Archive(home)


def reported(archive: Archive) -> dict[str, SourceProblem]:
    return {problem.path.relative_to(archive.home).as_posix(): problem for problem in archive.discover().problems}


def test_the_files_of_an_episode_are_found_by_their_stem(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, "audio/ep03.opus", "notes/ep03.md", "transcripts/ep03.vtt", "notes/ep01.md")
    found = archive.discover()
    assert list(found.episodes) == ["ep01", "ep03"]
    third = found.episodes["ep03"]
    assert third.audio == tmp_path / "audio/ep03.opus"
    assert third.notes == tmp_path / "notes/ep03.md"
    assert third.published == tmp_path / "transcripts/ep03.vtt"
    assert found.episodes["ep01"].audio is None
    assert found.problems == ()


def test_suffixes_may_be_written_in_capitals(tmp_path: Path) -> None:
    found = archive_with(tmp_path, "audio/ep03.MP3", "notes/ep03.Md", "transcripts/ep03.JSON").discover()
    assert found.episodes["ep03"].audio == tmp_path / "audio/ep03.MP3"
    assert found.problems == ()


@pytest.mark.parametrize("name", ["Ep 3", "-ep3", "čaj", "ep:3", "e" * 65, "ep03\n"])
def test_a_name_that_cannot_be_an_episode_id_is_reported_and_not_guessed(tmp_path: Path, name: str) -> None:
    archive = archive_with(tmp_path, f"audio/{name}.mp3")
    assert archive.discover().episodes == {}
    assert "rename it to at most 64" in reported(archive)[f"audio/{name}.mp3"].line


def test_ids_of_64_characters_with_dots_dashes_and_underscores_are_taken(tmp_path: Path) -> None:
    name = "s01.e02-kettle_" + "x" * 49
    assert list(archive_with(tmp_path, f"notes/{name}.md").discover().episodes) == [name]


def test_of_two_audio_files_one_is_used_by_a_fixed_order_and_the_other_reported(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, "audio/ep03.mp4", "audio/ep03.aac", "audio/ep03.mp3")
    assert archive.discover().episodes["ep03"].audio == tmp_path / "audio/ep03.mp3"
    assert sorted(reported(archive)) == ["audio/ep03.aac", "audio/ep03.mp4"]
    assert "ep03.mp3 has the same episode id: keep one" in reported(archive)["audio/ep03.aac"].line


def test_names_that_are_equal_once_normalised_are_one_episode(tmp_path: Path) -> None:
    kelvin = "notes/\u212a9.md"  # the Kelvin sign, whose NFC form is the letter K
    archive = archive_with(tmp_path, kelvin, "notes/K9.md")
    assert archive.discover().episodes["K9"].notes == tmp_path / "notes/K9.md"
    assert "has the same episode id" in reported(archive)[kelvin].message


@pytest.mark.skipif(sys.platform in {"darwin", "win32"}, reason="file names differ in case only on case-sensitive systems")
def test_an_id_that_differs_only_in_case_from_another_is_reported(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, "audio/EP03.mp3", "notes/ep03.md")
    assert list(archive.discover().episodes) == ["EP03"]
    assert "name it EP03" in reported(archive)["notes/ep03.md"].fix


@pytest.mark.parametrize("name", ["audio/ep03.txt", "transcripts/ep03.docx", "notes/ep03.rtf", "audio/ep03"])
def test_a_file_of_an_unknown_kind_is_reported_with_the_suffixes_that_would_do(tmp_path: Path, name: str) -> None:
    archive = archive_with(tmp_path, name)
    assert archive.discover().episodes == {}
    assert "rename it to one of ." in reported(archive)[name].fix


@pytest.mark.parametrize("name", [".DS_Store", "Thumbs.db", "desktop.ini", ".ep03.mp3", "ep03.mp3~", "~$ep03.mp3"])
def test_what_systems_and_editors_leave_behind_is_ignored(tmp_path: Path, name: str) -> None:
    found = archive_with(tmp_path, f"audio/{name}").discover()
    assert (found.episodes, found.problems) == ({}, ())


@pytest.mark.parametrize("name", ["ep03.mp3.part", "ep03.mp3.crdownload", "ep03.tmp", ".ep03.PART"])
def test_a_partial_download_is_reported_as_still_being_written(tmp_path: Path, name: str) -> None:
    archive = archive_with(tmp_path, f"audio/{name}")
    assert archive.discover().episodes == {}
    assert "is still being written" in reported(archive)[f"audio/{name}"].message


def test_a_sub_folder_is_reported(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, "audio/season1/ep03.mp3")
    assert archive.discover().episodes == {}
    assert "is a folder: move its files up" in reported(archive)["audio/season1"].line


def test_a_link_that_leads_nowhere_is_reported(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, "audio/ep01.mp3")
    (tmp_path / "audio/ep02.mp3").symlink_to(tmp_path / "gone.mp3")
    assert list(archive.discover().episodes) == ["ep01"]
    assert "is not a file" in reported(archive)["audio/ep02.mp3"].message


def test_a_file_in_the_place_of_a_folder_is_reported(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, "audio", "notes/ep01.md")
    assert list(archive.discover().episodes) == ["ep01"]
    assert "make it a folder" in reported(archive)["audio"].fix


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has file names that are not valid Unicode")
def test_a_name_that_is_not_valid_unicode_is_reported_in_a_form_that_can_be_printed(tmp_path: Path) -> None:
    folder = tmp_path / "audio"
    folder.mkdir()
    (folder / os.fsdecode(b"d\xe9but.mp3")).write_bytes(b"")
    (problem,) = Archive(tmp_path).discover().problems
    assert "d\\udce9but.mp3" in problem.line
    assert problem.line.encode("utf-8")


def test_a_home_that_does_not_exist_says_what_to_create(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"create that folder with audio/, notes/ and transcripts/.*--home") as caught:
        Archive(tmp_path / "nowhere").discover()
    assert str(tmp_path / "nowhere") in caught.value.message


def test_an_archive_without_episodes_is_no_error_and_has_one_line_that_names_the_folders(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    found = archive.discover()
    assert (found.episodes, found.problems) == ({}, ())
    message = archive.empty_message()
    assert "\n" not in message
    assert all(str(tmp_path / folder) in message for folder in ("audio", "notes", "transcripts"))


def test_what_is_derived_lies_beside_the_sources(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    assert archive.gold_path == tmp_path / "gold/gold_set.json"
    derived = [archive.warehouse_dir, archive.dagster_home_dir, archive.reports_dir, archive.published_dir]
    assert [path.name for path in derived] == ["warehouse", "dagster_home", "reports", "published"]


NAMES = [
    *(
        "ep1.md",
        "EP1.md",
        "Ep1.md",
        "ep1.vtt",
        "ep1.srt",
        "ep1.mp3",
        "ep1.MP3",
        "ep1.part",
        "ep10.md",
        "ep1.x.md",
        ".ep1.md",
    ),
    *("ep1~", "ep1", "ep2.md", "e\u0301p1.md", "\u212ap1.md", "kp1.md", "Kp1.mp3", "ep1.mp3.part", "ep1 .md"),
]


@given(
    listed=st.dictionaries(st.sampled_from(["audio", "notes", "transcripts"]), st.sets(st.sampled_from(NAMES), max_size=8)),
    has_folder=st.booleans(),
)
def test_one_episode_alone_has_the_files_that_it_has_among_all(tmp_path_factory, listed, has_folder) -> None:
    home = tmp_path_factory.mktemp("archive")
    archive = archive_with(home, *(f"{kind}/{name}" for kind, names in listed.items() for name in names))
    if has_folder:
        (home / "notes" / "ep1.folder").mkdir(parents=True)
    everything = archive.discover().episodes
    for episode_id in {*everything, "ep1", "EP1", "kp1", "none"}:
        alone = archive.discover(only=episode_id).episodes
        assert alone == {id: files for id, files in everything.items() if id == episode_id}
