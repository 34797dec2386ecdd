"""`librarian search`: marks on a terminal, the link to the moment, and nothing that steers the terminal."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from librarian_pipeline.cli import main
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.web.archive import HEARD, HOSTILE, MATCH, MATCH_S, web_archive

Search = Callable[..., str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a blank and a number sign in its path."""
    return web_archive(tmp_path_factory.mktemp("searching") / "my #1 podcast")


@pytest.fixture
def search(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Search:
    def run(*arguments: str, on_terminal: bool = False) -> str:
        monkeypatch.setattr(sys, "argv", ["librarian", "search", *arguments, "--home", str(home)])
        monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert (ended.value.code, said.err) == (0, "")
        return said.out

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return run


def test_a_result_has_its_citation_its_text_and_the_link_to_the_moment(search: Search, home: Path) -> None:
    lines = search(MATCH, "--mode", "bm25_stem", "-k", "1").splitlines()
    assert lines[0] == f"1. Ep. {HEARD} @ 00:{MATCH_S}"
    assert "An owl hears a mouse under the snow." in lines[1]
    assert lines[2] == f"   {home.parent.as_uri()}/my%20%231%20podcast/audio/{HEARD}.opus#t={MATCH_S}"
    assert lines[3] == f"published index: {Workspace.open(home).snapshots.current_id()}"


def test_words_are_marked_on_a_terminal_alone(search: Search) -> None:
    arguments = (MATCH, "--mode", "bm25_stem", "-k", "1")
    assert "\x1b[1;33mowl\x1b[0m hears a \x1b[1;33mmouse\x1b[0m" in search(*arguments, on_terminal=True)
    assert "\x1b" not in search(*arguments)


def test_who_wants_no_colours_gets_no_marks(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in search(MATCH, "--mode", "bm25_stem", on_terminal=True)


def test_json_says_where_the_marks_are(search: Search) -> None:
    [hit, *_] = json.loads(search(MATCH, "--mode", "bm25_stem", "--json"))
    for text, spans in ((hit["text"], hit["highlights"]), (hit["excerpt"], hit["excerpt_highlights"])):
        assert [text[start:end] for start, end in spans] == ["owl", "mouse", "snow"]
    assert hit["audio"].endswith(f"/{HEARD}.opus#t={hit['start_ms'] // 1000}")
    assert hit["warning"] is None


def test_an_episode_without_a_recording_has_no_link(search: Search) -> None:
    assert {hit["audio"] for hit in json.loads(search("zanzibar", "--mode", "bm25_raw", "--json"))} == {None}


def test_hostile_text_steers_no_terminal(search: Search) -> None:
    said = search("zanzibar", "--mode", "bm25_raw", on_terminal=True)
    assert HOSTILE in said
    assert "<script>window.hurt = 1</script>" in said
    assert not set("\u202e\u202c\u2066\u2069") & set(said)
