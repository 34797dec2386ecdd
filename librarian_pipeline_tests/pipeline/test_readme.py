"""What the README says is true. Its score table is held against the whole archive by `make test-sample`."""

import re
import shlex

import duckdb
import pytest

from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import REPOSITORY, run_librarian

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def without_what_the_rest_decides(text: str) -> str:
    """The sample of the tests is a part of the archive in the README. The snapshot is another one, therefore, and the second
    that is cited may be: how rare a word is decides. `make test-sample` holds that second against the whole archive."""
    text = re.sub(r"(?<=published index: )[0-9a-f]{16}", "ID", text)
    return re.sub(r"(?<=@ )\d\d:\d\d$|(?<=#t=)\d+$", "TIME", text, flags=re.MULTILINE)


def test_the_search_that_is_shown_gives_what_is_shown(sample: Workspace) -> None:
    block = next(block for block in blocks("console") if "$ .venv/bin/librarian search" in block)
    command, shown = re.search(r"^\$ \S*librarian (search .*)\n((?:[^$].*\n)+)", block, re.MULTILINE).groups()  # type: ignore[union-attr]
    arguments = [str(sample.home) if part == "data" else part for part in shlex.split(command)]
    said = run_librarian(*arguments).stdout.strip().replace(sample.home.as_uri(), "file:///home/me/data")
    assert without_what_the_rest_decides(said) == without_what_the_rest_decides(shown.strip())


@pytest.mark.parametrize("query", [query for block in blocks("sql") for query in block.split(";") if query.strip()])
def test_each_sql_query_gives_rows(query: str, sample: Workspace) -> None:
    with duckdb.connect(sample.warehouse.root / "librarian.duckdb", read_only=True) as connection:
        assert connection.sql(query).fetchall()


def test_each_command_that_is_named_exists() -> None:
    named = set(re.findall(r"librarian ([a-z]+)", " ".join(re.findall(r"`([^`\n]+)`", README) + blocks("console"))))
    known = set(re.findall(r"^  ([a-z]+) ", run_librarian("--help").stdout, re.MULTILINE))
    assert named
    assert named <= known


def test_each_make_target_that_is_named_exists() -> None:
    named = set(re.findall(r"`make ([a-z-]+)`", README)) | set(re.findall(r"^\$ make ([a-z-]+)", README, re.MULTILINE))
    known = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    assert named <= known


def test_each_link_into_the_repository_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if not link.startswith("http")]
    assert links
    assert [link for link in links if not (REPOSITORY / link).exists()] == []


def test_each_setting_that_is_shown_is_one(sample_copy: Workspace) -> None:
    [toml] = [block for block in blocks("toml") if "[embeddings]" in block]
    (sample_copy.home / "librarian.toml").write_text(toml)
    assert run_librarian("status", "--home", str(sample_copy.home)).returncode == 0
