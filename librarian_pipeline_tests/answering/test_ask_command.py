import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from librarian_pipeline.answering.wording import words_of
from librarian_pipeline.cli import main
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline_tests.answering.conftest import EPISODES

Said = tuple[int, str, str]


@pytest.fixture
def command(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def run(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["librarian", "ask", *arguments, "--home", str(home)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def test_quotes_citations_and_the_snapshot_at_the_end(command: Callable[..., Said], edition: Edition) -> None:
    code, out, err = command("boiled salt iron pans")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == f"“{EPISODES['two'][0]}”"
    assert lines[1].strip() == "Ep. two @ 00:00"
    assert lines[-1] == f"snapshot: {edition.id}"


def test_a_refusal_says_why_and_has_an_exit_code_of_its_own(command: Callable[..., Said], edition: Edition) -> None:
    code, out, _ = command("Kolik stojí jízdenka do Vídně?")
    assert code == 3
    assert out.startswith("refused: the archive has too little on this")
    assert "Ep. " not in out
    code, out, _ = command("Kolik stojí jízdenka do Vídně?", "--json")
    answer = json.loads(out)
    assert (code, answer["status"], answer["claims"], answer["snapshot"]) == (3, "refused", [], edition.id)


def test_json_is_the_whole_answer(command: Callable[..., Said]) -> None:
    code, out, _ = command("boiled salt iron pans", "--mode", "bm25_stem", "--json")
    answer = json.loads(out)
    [claim] = [claim for claim in answer["claims"] if claim["chunk_id"] == "two:t000"]
    assert code == 0
    assert claim["citation"] == {"text": "Ep. two @ 00:00", "episode_id": "two", "start_ms": 0}
    assert words_of(claim["quote"]) == words_of(EPISODES["two"][0])


def test_what_could_turn_a_terminal_s_reading_direction_is_not_printed(command: Callable[..., Said]) -> None:
    code, out, _ = command("cheese cellar dug old brewery")
    assert code == 0
    assert "The cheese cellar was dug" in out
    assert "\u202e" not in out


@pytest.mark.parametrize("arguments", [(), ("a question", "--calibrate"), ("  ",), ("salt", "--mode", "best")])
def test_wrong_use_is_one_line(command: Callable[..., Said], arguments: tuple[str, ...]) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_calibration_prints_counts_and_thresholds(command: Callable[..., Said], edition: Edition) -> None:
    code, out, _ = command("--calibrate")
    assert code == 0
    assert "false answers" in out
    assert "in use: min_cosine none, min_coverage 0.6" in out
    assert command("--calibrate", "--json")[0] == 0
