import os
import threading
import time
from pathlib import Path

import pytest

from librarian_pipeline.errors import DeferredError, LibrarianError, SourceError
from librarian_pipeline.settings import AudioSettings
from librarian_pipeline.speech.audio_facts import audio_row
from librarian_pipeline.speech.settling import require_settled
from librarian_pipeline_tests.speech.sounds import mp3

PATIENT = AudioSettings(settle_s=0.3)


def aged(path: Path) -> Path:
    os.utime(path, (time.time() - 60, time.time() - 60))
    return path


def read_while_written_to(path: Path, failure: Exception | None) -> None:
    path.write_bytes(b"something else")
    if failure:
        raise failure


def append_later(path: Path, after_s: float) -> threading.Thread:
    def append() -> None:
        time.sleep(after_s)
        with path.open("ab") as file:
            file.write(b"more")

    thread = threading.Thread(target=append)
    thread.start()
    return thread


def test_a_file_that_has_not_changed_lately_is_read_without_waiting(tmp_path):
    started = time.monotonic()
    with require_settled(aged(mp3(tmp_path / "a.mp3", seconds=1)), AudioSettings(settle_s=60)):
        pass
    assert time.monotonic() - started < 0.5


def test_a_file_that_changed_just_now_is_looked_at_twice(tmp_path):
    path = mp3(tmp_path / "a.mp3", seconds=1)
    started = time.monotonic()
    with require_settled(path, PATIENT):
        pass
    assert time.monotonic() - started >= 0.2


def test_a_file_that_grows_while_it_is_waited_for_is_deferred(tmp_path):
    path = mp3(tmp_path / "a.mp3", seconds=1)
    writer = append_later(path, 0.05)
    with pytest.raises(DeferredError, match="is still being written"), require_settled(path, PATIENT):
        raise AssertionError("it must not be read")
    writer.join()


@pytest.mark.parametrize("failure", [None, SourceError("no audio")])
def test_a_file_that_grows_while_it_is_read_is_deferred_even_if_reading_failed(tmp_path, failure):
    path = aged(mp3(tmp_path / "a.mp3", seconds=1))
    with pytest.raises(DeferredError), require_settled(path, PATIENT):
        read_while_written_to(path, failure)


def test_a_bad_file_that_is_not_written_to_stays_a_bad_file(tmp_path):
    path = aged(mp3(tmp_path / "a.mp3", seconds=1))
    with pytest.raises(SourceError), require_settled(path, PATIENT):
        raise SourceError("no audio")


def test_a_file_that_is_not_there_is_no_deferred_one(tmp_path):
    with pytest.raises(LibrarianError, match="can't be read") as caught, require_settled(tmp_path / "gone.mp3", PATIENT):
        pass
    assert not isinstance(caught.value, DeferredError)


def test_the_row_of_a_growing_file_says_deferred_and_that_of_a_settled_one_has_every_fact(tmp_path):
    path = mp3(tmp_path / "a.mp3", seconds=1)
    writer = append_later(path, 0.05)
    row = audio_row(path, "a", tmp_path, PATIENT)
    writer.join()
    assert (row["status"], row["source_path"], row["audio_sha256"]) == ("deferred", "a.mp3", None)
    assert "is still being written" in row["status_reason"]
    row = audio_row(path, "a", tmp_path, PATIENT)
    assert row["status"] == "partial"  # the four bytes that were added are no audio
    assert row["duration_last_packet_ms"] == pytest.approx(1_000, abs=60)
    assert row["duration_decoded_ms"] == pytest.approx(1_000, abs=60)


def test_an_unreadable_file_has_a_row_with_the_reason(tmp_path):
    (tmp_path / "a.mp3").write_bytes(b"<html>404</html>")
    row = audio_row(aged(tmp_path / "a.mp3"), "a", tmp_path, PATIENT)
    assert row["status"] == "unreadable"
    assert "web page" in row["status_reason"]
    assert row["audio_bytes"] == 16
