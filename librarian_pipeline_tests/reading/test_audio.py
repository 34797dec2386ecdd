"""Links to a moment of a file, and the files that they may lead to."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.archive.layout import Archive
from librarian_pipeline.reading.audio import audio_of, file_link


def test_a_link_opens_the_second() -> None:
    assert file_link(Path("/pod/audio/ep03.mp3"), 483_900) == "file:///pod/audio/ep03.mp3#t=483"
    assert file_link(Path("/pod/audio/ep03.mp3"), None) == "file:///pod/audio/ep03.mp3"


@given(
    name=st.text(alphabet=st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1).filter(
        lambda name: name not in ".."
    )
)
def test_whatever_a_folder_is_called_the_link_names_it(name: str) -> None:
    parts = urlsplit(file_link(Path("/") / name / "ep.mp3", 5_000))
    assert (unquote(parts.path), parts.query, parts.fragment) == (f"/{name}/ep.mp3", "", "t=5")


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    home = tmp_path / "home"
    (home / "audio").mkdir(parents=True)
    (home / "audio" / "ep1.mp3").write_bytes(b"sound")
    (tmp_path / "secret.mp3").write_bytes(b"secret")
    (home / "audio" / "out.mp3").symlink_to(tmp_path / "secret.mp3")
    return Archive(home)


def test_the_recording_of_an_episode_is_found(archive: Archive) -> None:
    assert audio_of(archive, "ep1") == (archive.home / "audio" / "ep1.mp3").resolve()


@pytest.mark.parametrize("episode_id", ["out", "ep2", "", "../secret", "..", "ep1.mp3", "ep1\n", "ep1\0", "/etc/passwd"])
def test_nothing_else_is(episode_id: str, archive: Archive) -> None:
    assert audio_of(archive, episode_id) is None
