import os
from pathlib import Path

import pytest

from librarian_pipeline import cache
from librarian_pipeline.archive import headers
from librarian_pipeline.archive.headers import header_of

LONG_AGO_NS = 1_700_000_000_000_000_000


def write(path: Path, language: str) -> Path:
    """Notes put in place of others of the same size and time."""
    temporary = path.with_name(".new")
    temporary.write_text(f"---\nlanguage: {language}\n---\nIt sings.\n", encoding="utf-8")
    os.utime(temporary, ns=(LONG_AGO_NS, LONG_AGO_NS))
    return temporary.replace(path)


def language(path: Path) -> str | None:
    header = header_of(path)
    assert header is not None
    return header.language


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The notes whose front matter was taken apart."""
    paths: list[Path] = []
    original = headers.read_front_matter

    def counted(path: Path) -> headers.FrontMatter:
        paths.append(path)
        return original(path)

    monkeypatch.setattr(headers, "read_front_matter", counted)
    return paths


@pytest.mark.parametrize("settled", [True, False])
def test_notes_are_taken_apart_once_if_they_cannot_have_changed_since(tmp_path, monkeypatch, parsed, settled):
    monkeypatch.setattr(cache, "SETTLED_NS", -1 if settled else 10**12)
    path = write(tmp_path / "ep01.md", "en")
    assert [language(path) for _ in range(3)] == ["en"] * 3
    assert len(parsed) == (1 if settled else 3)


@pytest.mark.parametrize("settled", [True, False])
def test_other_notes_of_the_same_size_and_time_are_seen(tmp_path, monkeypatch, settled):
    monkeypatch.setattr(cache, "SETTLED_NS", -1 if settled else 10**12)
    found = []
    for code in ("en", "cs"):
        path = write(tmp_path / "ep01.md", code)
        found.append(language(path))
    assert found == ["en", "cs"]


def test_notes_that_cannot_be_read_have_none(tmp_path):
    (tmp_path / "broken.md").write_text("---\nlanguage: [\n---\n")
    assert header_of(tmp_path / "broken.md") is None
    assert header_of(tmp_path / "gone.md") is None
