"""Demonstrations of the sample archive, and what becomes of a promise that isn't kept."""

from pathlib import Path

import pytest

from librarian_pipeline.demo.playing import Showing, play
from librarian_pipeline.demo.script import Demo, read_demos
from librarian_pipeline.demo.showing import lines_of
from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.gold import GoldSpan
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.serving.library import Library
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import SAMPLE

DEMOS = read_demos(SAMPLE / "demos")
MEANING = DEMOS[1].model_copy(update={"not_found_by": ()})
"""Among ten episodes, chance words are enough for BM25 to find it."""
OF_THE_CORE = (DEMOS[0], MEANING)
"""The third asks for episodes that only the whole sample archive has: `make test-sample` plays all as they are."""
WHOLE = (SAMPLE / "demos" / "1-said-not-written.toml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def edition(sample: Workspace) -> Edition:
    return Library(sample).edition()


def broken(showing: Showing) -> list[str]:
    return [promise.line for promise in showing.promises if not promise.kept]


@pytest.mark.parametrize("demo", OF_THE_CORE, ids=lambda demo: demo.title)
def test_a_demonstration_of_the_sample_keeps_its_promises(demo: Demo, edition: Edition) -> None:
    assert broken(play(demo, edition)) == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"says": ("a zebra crossing",)}, "what was found says “a zebra crossing”"),
        ({"never_in_notes": ("clay tablets",)}, "ep02:n001 holds “clay tablets”"),
        ({"query": "What about the ferryman?"}, "the question shares ferryman"),
        ({"not_found_by": ("dense",)}, "dense finds it at rank 1 within 3"),
        (
            {"relevant": (GoldSpan(episode="ep99", layer="transcript", start="00:10", end="00:45"),)},
            "ep99 transcript 00:10-00:45 is in the archive",
        ),
    ],
)
def test_a_promise_that_is_not_kept_is_named(changes: dict[str, object], line: str, edition: Edition) -> None:
    showing = play(MEANING.model_copy(update=changes), edition)
    assert line in broken(showing)
    assert not showing.kept
    assert f"   NOT AS PROMISED: {line}" in list(lines_of(showing, 1))


def test_a_result_is_shown_in_one_line_by_the_part_that_was_asked_for(edition: Edition) -> None:
    words = {"query": "You open the tap, and water comes out of the far end", "mode": "bm25_stem"}
    showing = play(DEMOS[0].model_copy(update=words), edition)
    [line] = [line for line in lines_of(showing, 1) if line.startswith("   1. Ep. ep03 @ 00:")]
    assert ": … " in line
    assert "water comes out of the far end" in line


def test_an_answer_has_to_quote_as_many_episodes_as_promised(edition: Edition) -> None:
    showing = play(MEANING.model_copy(update={"claims_from": 2}), edition)
    assert showing.answer is not None
    assert len(broken(showing)) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("title = ", "is not valid TOML"),
        ('title = "a"', "tells: Field required"),
        (f"more = 1\n{WHOLE}", "more: Extra inputs"),
    ],
)
def test_a_file_that_is_wrong_is_named(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=told):
        read_demos(tmp_path)


def test_a_folder_without_demonstrations_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no demonstrations"):
        read_demos(tmp_path / "demos")
