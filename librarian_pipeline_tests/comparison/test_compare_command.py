"""`librarian compare`, from its arguments to its exit code."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from librarian_pipeline import cli, compare_command
from librarian_pipeline.compare_command import _how_compared
from librarian_pipeline.comparison.deriving import FOLDER
from librarian_pipeline.comparison.results import Results
from librarian_pipeline.evaluation.measure import stored_score_table
from librarian_pipeline.evaluation.metrics import HEADLINE
from librarian_pipeline.evaluation.score_table import ScoreTable
from librarian_pipeline.lineage.planning import Scope
from librarian_pipeline.retrieval.embedders import registry
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.run_command import run_archive
from librarian_pipeline.workspace import Workspace


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:  # type: ignore[type-arg]
        found: dict = json.loads(self.out)  # type: ignore[type-arg]
        return found


Compare = Callable[..., Said]


@pytest.fixture
def compare(workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Runs the command on the archive, in this process: a candidate for each text, and other arguments."""

    def run(*candidates: str, more: tuple[str, ...] = ()) -> Said:
        arguments = [part for text in candidates for part in ("--set", text)]
        monkeypatch.setattr(sys, "argv", ["librarian", "compare", *arguments, "--home", str(workspace.home), *more])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return run


def rows(out: str, mode: str) -> list[list[str]]:
    lines = out.splitlines()
    start = lines.index(mode) + 2
    return [line.split() for line in lines[start : lines.index("", start) if "" in lines[start:] else None]]


def test_a_table_for_each_mode_shows_each_candidate_and_its_change(compare: Compare) -> None:
    said = compare("normalizer.name=snowball", "chunks.target_s=20")
    assert said.code == 0, said.err
    assert "1: normalizer.name=snowball" in said.out
    assert "a fallback without weights" in said.out
    assert re.search(r"^\d+ queries, each compared with itself as set$", said.out, re.MULTILINE)
    for mode in MODES:
        as_set, first, second = rows(said.out, mode)
        assert len(as_set) == 2 + len(HEADLINE)
        assert (first[5:] == ["same"]) == (mode in ("bm25_raw", "dense"))
        change, low, high, p, corrected = (float(second[n].lstrip("<")) for n in (5, 6, 8, 9, 10))
        assert low <= change <= high
        assert 0 < p <= corrected <= 1
        assert re.fullmatch(r"\d+-\d+", second[11])


def test_no_line_of_a_table_is_wider_than_a_terminal(compare: Compare) -> None:
    out = compare("chunks.target_s=20,chunks.max_s=30,fusion.c=10,fusion.depth=20", "bm25.k1=1").out
    tables = out[out.index("\n\nbm25_raw\n") :]
    assert max(map(len, tables.splitlines())) <= 80
    assert len(rows(tables, "dense")) == 3


def test_what_was_derived_and_shared_is_said_on_stderr(compare: Compare) -> None:
    said = compare("fusion.depth=2")
    assert re.search(r"^as set: derived nothing; shared 21 of 21$", said.err, re.MULTILINE)
    assert re.search(r"^fusion.depth=2: derived in \d+ s: eval_scores 1; shared 20 of 21$", said.err, re.MULTILINE)


def test_the_figures_are_those_that_switching_gives(compare: Compare, workspace: Workspace) -> None:
    found = compare("chunks.max_words=100,normalizer.name=none", more=("--json",)).json
    assert found["queries"]["left_out"] == []
    toml = '[embeddings]\nmodel = "char-ngram"\n[chunks]\nmax_words = 100\n[normalizer]\nname = "none"\n'
    (workspace.home / "librarian.toml").write_text(toml)
    switched = Workspace.open(workspace.home)
    run_archive(switched, Scope())
    table = stored_score_table(switched.warehouse)
    compared = {
        (mode, metric): candidate["values"][metric] for mode, (_, candidate) in found["modes"].items() for metric in HEADLINE
    }
    switched_to = {key: value for key, value in table.values.items() if key[1] in HEADLINE}
    assert compared == pytest.approx(switched_to)
    assert found["candidates"][1]["passages"] == table.n_passages


def test_queries_that_are_left_out_are_named_and_those_that_are_lost_to_all_are_counted() -> None:
    tables: list[ScoreTable] = []
    some = Results(tables, queries=["q1"], left_out=["q2", "q3"], lost=["q4"], rows={}, n_tests=1)
    none = Results(tables, queries=[], left_out=[], lost=["q1"], rows={}, n_tests=0)
    assert _how_compared(some)[:3] == [
        "left out, as not every candidate has passages for all their spans: q2, q3",
        "left out, as no candidate has a passage for any of their spans: 1 queries",
        "1 queries, each compared with itself as set",
    ]
    assert _how_compared(none)[-1] == "no query is left to compare on"


def test_one_mode_may_be_asked_for(compare: Compare) -> None:
    assert list(compare("fusion.c=10", more=("--mode", "hybrid", "--json")).json["modes"]) == ["hybrid"]


def test_json_is_all_that_goes_to_stdout(compare: Compare) -> None:
    found = compare("fusion.c=10", more=("--json",)).json
    assert [one["name"] for one in found["candidates"]] == ["as set", "fusion.c=10"]
    assert found["candidates"][1]["derived"] == {"eval_scores": 1}


def test_no_dagster_is_needed(workspace: Workspace) -> None:
    script = (
        f"import sys; sys.argv = ['librarian', 'compare', '--set', 'fusion.c=10', '--home', {str(workspace.home)!r}]\n"
        "from librarian_pipeline.cli import main\n"
        "try: main()\n"
        "finally: print('dagster' in sys.modules, file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr.splitlines()[-1]) == (0, "False")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "fusion.cc=1"], "unknown key fusion.cc: did you mean fusion.c?"),
        (["--set", "fusion.c=none"], "fusion.c = 'none'"),
        (["--set", "fusion.c"], "'fusion.c' is no change"),
        (["--set", "fusion.c=10", "--mode", "lucene"], "use one of: bm25_raw, bm25_stem, dense, hybrid"),
        ([], "--set"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(compare: Compare, arguments: list[str], said: str) -> None:
    result = compare(more=tuple(arguments))
    assert result.code == 2
    assert len(result.err.splitlines()) == 1
    assert said in result.err


def test_a_model_that_is_not_here_is_told_before_anything_is_derived(
    compare: Compare, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda package: None)
    result = compare("normalizer.name=none", "embeddings.model=all-MiniLM-L6-v2")
    assert result.code == 2
    line = "error: embeddings.model=all-MiniLM-L6-v2: the weights of all-MiniLM-L6-v2 are not installed"
    assert result.err.startswith(line)
    assert not (workspace.warehouse.root / FOLDER).exists()


def test_a_missing_whisper_model_is_no_concern_where_nothing_is_transcribed(compare: Compare, workspace: Workspace) -> None:
    assert compare("whisper.model=/no/such/folder").code == 0
    (workspace.home / "audio" / "ep20.mp3").write_bytes(b"sound")
    result = compare("whisper.model=/no/such/folder")
    assert result.code == 2
    assert "whisper.model=/no/such/folder: there is no Whisper folder" in result.err


@pytest.mark.parametrize(
    ("gold", "code", "said"),
    [
        (None, 2, "no judged queries to compare on"),
        ("[]", 2, "no judged queries to compare on"),
        ("[{", 1, "gold_set.json is not valid JSON"),
    ],
)
def test_without_a_good_gold_set_there_is_nothing_to_compare_on(
    compare: Compare, workspace: Workspace, gold: str | None, code: int, said: str
) -> None:
    workspace.archive.gold_path.unlink()
    if gold is not None:
        workspace.archive.gold_path.write_text(gold)
    result = compare("fusion.c=10")
    assert (result.code, len(result.err.splitlines())) == (code, 1)
    assert said in result.err


def test_an_episode_that_fails_is_named_with_its_candidates_and_the_exit_code_is_1(
    compare: Compare, workspace: Workspace
) -> None:
    (workspace.home / "notes" / "ep06.md").write_text("---\ntitle: [unclosed\n---\n")
    result = compare("fusion.c=10")
    assert result.code == 1
    [failed] = [line for line in result.err.splitlines() if line.startswith("failed: ")]
    assert "notes[ep06]: " in failed
    assert failed.endswith("(every candidate)")
    assert "hybrid" in result.out


def test_a_candidate_that_cannot_be_measured_is_left_out_of_the_tables(
    compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the stemmer is broken")

    monkeypatch.setattr("librarian_pipeline.derivation.indexes.build_stem_index", fail)
    result = compare("normalizer.name=none", "fusion.c=10")
    assert result.code == 1
    assert "failed: bm25_stem_index: RuntimeError: the stemmer is broken (normalizer.name=none)" in result.err
    assert "not measured, since what its figures rest on could not be derived (normalizer.name=none)" in result.err
    assert [row[0] for row in rows(result.out, "hybrid")] == ["as", "2"]


def test_figures_of_files_that_change_meanwhile_are_not_compared(
    compare: Compare, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    derive = compare_command._derive

    def edit(*arguments: object) -> object:
        notes: Path = workspace.home / "notes" / "ep06.md"
        notes.write_text(notes.read_text() + "\nmore\n")
        return derive(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(compare_command, "_derive", edit)
    result = compare("fusion.c=10")
    assert (result.code, result.out) == (1, "")
    assert "files of the archive changed" in result.err


def test_a_second_comparison_says_that_it_waits_and_goes_on_when_the_first_has_ended(
    compare: Compare, workspace: Workspace
) -> None:
    held = threading.Event()

    def hold() -> None:
        with FileLock(workspace.warehouse.root / ".compare.lock"):
            held.set()
            time.sleep(1)

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    result = compare("fusion.c=10")
    other.join()
    assert result.code == 0
    assert "another comparison is at work on this archive: waiting" in result.err


def test_comparisons_at_the_same_time_all_come_through_with_the_same_figures(workspace: Workspace) -> None:
    command = "from librarian_pipeline.cli import main; main()"
    arguments = ["compare", "--set", "fusion.c=10", "--home", str(workspace.home)]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    said = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    assert len({out for out, _ in said}) == 1
