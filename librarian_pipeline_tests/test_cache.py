import hashlib
import json
import os
from pathlib import Path

import pytest

from librarian_pipeline import cache
from librarian_pipeline.errors import UsageError

LONG_AGO_NS = 1_700_000_000_000_000_000


def write_old(path: Path, content: bytes, mtime_ns: int = LONG_AGO_NS) -> Path:
    path.write_bytes(content)
    os.utime(path, ns=(mtime_ns, mtime_ns))
    return path


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file can be made whose inode changed long ago: what was written counts as settled at once."""
    monkeypatch.setattr(cache, "SETTLED_NS", -1)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files whose bytes were read for a digest."""
    paths: list[Path] = []
    original = cache.file_sha256

    def counted(path: Path) -> str:
        paths.append(path)
        return original(path)

    monkeypatch.setattr(cache, "file_sha256", counted)
    return paths


def test_the_cache_folder_is_the_one_that_the_environment_names_and_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("LIBRARIAN_CACHE", str(tmp_path / "a" / "b"))
    assert cache.cache_dir() == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()


def test_without_the_variable_the_cache_is_the_users(tmp_path, monkeypatch):
    monkeypatch.delenv("LIBRARIAN_CACHE", raising=False)
    monkeypatch.setattr(cache.platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    assert cache.cache_dir() == tmp_path / "librarian-pipeline"


def test_a_cache_folder_that_cannot_be_made_is_one_line_that_names_the_variable(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LIBRARIAN_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UsageError, match="LIBRARIAN_CACHE") as caught:
        cache.cache_dir()
    assert "\n" not in str(caught.value)


def test_the_digest_of_a_file_is_the_sha256_of_its_bytes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc" * 1_000_000)
    assert cache.file_sha256(path) == sha256(b"abc" * 1_000_000)


def test_an_unchanged_file_is_read_once_even_by_a_later_process(tmp_path, read):
    path = write_old(tmp_path / "file", b"one")
    for _ in range(2):
        memo = cache.DigestMemo(tmp_path / "memo.json")
        assert [memo.sha256(path), memo.sha256(path)] == [sha256(b"one")] * 2
        memo.save()
    assert read == [path]


@pytest.mark.parametrize(
    ("content", "mtime_ns"), [(b"three", LONG_AGO_NS), (b"two", LONG_AGO_NS + 1)], ids=["other size", "other time"]
)
def test_a_changed_file_is_read_again(tmp_path, content, mtime_ns):
    path = write_old(tmp_path / "file", b"one")
    memo = cache.DigestMemo(tmp_path / "memo.json")
    memo.sha256(path)
    write_old(path, content, mtime_ns)
    assert memo.sha256(path) == sha256(content)


def test_a_file_written_just_now_is_not_remembered_as_it_may_change_within_the_clocks_step(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "SETTLED_NS", 2_000_000_000)
    path = tmp_path / "file"
    path.write_bytes(b"one")
    stat = path.stat()
    memo = cache.DigestMemo(tmp_path / "memo.json")
    memo.sha256(path)
    write_old(path, b"two", stat.st_mtime_ns)
    assert memo.sha256(path) == sha256(b"two")


def test_the_same_name_in_another_folder_is_another_file(tmp_path, monkeypatch):
    memo = cache.DigestMemo(tmp_path / "memo.json")
    digests = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_old(tmp_path / name / "file", name.encode())
        monkeypatch.chdir(tmp_path / name)
        digests.append(memo.sha256(Path("file")))
    assert digests == [sha256(b"one"), sha256(b"two")]


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"[1, 2]", b'{"x": ', b"null"])
def test_a_damaged_memo_starts_anew(tmp_path, damage):
    (tmp_path / "memo.json").write_bytes(damage)
    path = write_old(tmp_path / "file", b"one")
    memo = cache.DigestMemo(tmp_path / "memo.json")
    assert memo.sha256(path) == sha256(b"one")
    memo.save()
    assert list(json.loads((tmp_path / "memo.json").read_text())) == [str(path)]


@pytest.mark.parametrize("entry", [None, [3], [3, LONG_AGO_NS, None], ["3", LONG_AGO_NS, "x"], {"a": 1}])
def test_a_damaged_entry_of_a_memo_is_worked_out_again(tmp_path, entry):
    path = write_old(tmp_path / "file", b"one")
    (tmp_path / "memo.json").write_text(json.dumps({str(path): entry}))
    assert cache.DigestMemo(tmp_path / "memo.json").sha256(path) == sha256(b"one")


def test_a_memo_is_written_only_when_it_changed(tmp_path):
    path = write_old(tmp_path / "file", b"one")
    memo_path = tmp_path / "memo.json"
    cache.DigestMemo(memo_path).save()
    assert not memo_path.exists()
    memo = cache.DigestMemo(memo_path)
    memo.sha256(path)
    memo.save()
    os.utime(memo_path, ns=(1, 1))
    memo.save()
    again = cache.DigestMemo(memo_path)
    again.sha256(path)
    again.save()
    assert memo_path.stat().st_mtime_ns == 1


def test_a_memo_that_cannot_be_written_says_so_and_leaves_nothing_behind(tmp_path):
    path = write_old(tmp_path / "file", b"one")
    memo = cache.DigestMemo(tmp_path / "memo.json")
    memo.sha256(path)
    (tmp_path / "memo.json").mkdir()
    with pytest.raises(OSError, match=r"memo\.json"):
        memo.save()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "memo.json"]


def test_files_that_are_gone_don_t_stay_in_the_memo(tmp_path):
    memo_path = tmp_path / "memo.json"
    gone, here = write_old(tmp_path / "gone", b"gone"), write_old(tmp_path / "here", b"here")
    memo = cache.DigestMemo(memo_path)
    memo.sha256(gone)
    memo.save()
    gone.unlink()
    memo.sha256(here)
    memo.save()
    assert list(json.loads(memo_path.read_text())) == [str(here)]


def test_two_files_of_equal_size_and_time_that_change_places_are_told_apart(tmp_path):
    one, other = write_old(tmp_path / "one", b"one"), write_old(tmp_path / "two", b"two")
    memo = cache.DigestMemo(tmp_path / "memo.json")
    assert [memo.sha256(one), memo.sha256(other)] == [sha256(b"one"), sha256(b"two")]
    one.rename(tmp_path / "spare")
    other.rename(one)
    (tmp_path / "spare").rename(other)
    assert [memo.sha256(one), memo.sha256(other)] == [sha256(b"two"), sha256(b"one")]
