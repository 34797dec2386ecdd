"""What is found out about a gold set is found out once."""

from pathlib import Path

import pytest

from librarian_pipeline.evaluation import gold_health as room
from librarian_pipeline.evaluation.gold_health import gold_health
from librarian_pipeline.settings import GoldSettings
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.pipeline.small_archive import SENTENCES, add_notes, add_published, write_gold
from librarian_pipeline_tests.pipeline.updating import bring


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    add_published(home, "one", SENTENCES[:4])
    add_published(home, "two", SENTENCES[3:])
    write_gold(home, {"q1": (SENTENCES[0], "one"), "q2": (SENTENCES[0].upper(), "one"), "q3": ("who went away", "gone")})
    bring(home)
    return home


@pytest.fixture
def warehouse(home: Path) -> Warehouse:
    return Workspace.open(home).warehouse


@pytest.fixture
def examined(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Each time that a gold set is examined from here on."""
    times: list[object] = []
    examine = room.examine
    monkeypatch.setattr(room, "examine", lambda *given: times.append(given) or examine(*given))
    return times


def test_what_is_kept_says_the_same(warehouse: Warehouse, examined: list[object]) -> None:
    room._path(warehouse).unlink(missing_ok=True)
    first = gold_health(warehouse, GoldSettings())
    assert [check.passed for check in first].count(False) >= 2  # a lost label and a duplicate, at the least
    assert gold_health(warehouse, GoldSettings()) == first
    assert len(examined) == 1


def test_another_threshold_judges_what_is_kept(warehouse: Warehouse, examined: list[object]) -> None:
    gold_health(warehouse, GoldSettings())
    before = len(examined)
    [paraphrases] = [
        check for check in gold_health(warehouse, GoldSettings(max_paraphrase_overlap=0)) if "paraphrases" in check.name
    ]
    assert not paraphrases.passed
    assert len(examined) == before


def test_other_passages_are_examined_anew(home: Path, warehouse: Warehouse, examined: list[object]) -> None:
    before = gold_health(warehouse, GoldSettings())
    add_notes(home, "gone", "He went away.")
    add_published(home, "gone", SENTENCES[4:6])
    bring(home)
    assert gold_health(warehouse, GoldSettings()) != before
    assert examined


@pytest.mark.parametrize("damaged", ["", "{}", '{"key": 1', '{"key": "other", "checks": [], "overlaps": []}'])
def test_what_is_kept_and_damaged_is_found_out_anew(damaged: str, warehouse: Warehouse) -> None:
    sound = gold_health(warehouse, GoldSettings())
    room._path(warehouse).write_text(damaged)
    assert gold_health(warehouse, GoldSettings()) == sound
