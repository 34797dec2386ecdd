"""Each command as people and programs use it."""

import json
import re
import time
from pathlib import Path
from typing import Any

import ir_measures
import pytest

from librarian_pipeline.evaluation.jump_in import JUMP_METRICS
from librarian_pipeline.evaluation.metrics import METRICS
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.settings import Settings
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import CORE_SETTINGS, environment, run_librarian

DEFAULT_MODE = Settings().retrieval.default_mode


def output(workspace: Workspace, *arguments: str) -> Any:
    result = run_librarian(*arguments, "--json", "--home", str(workspace.home))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_help_comes_within_a_second() -> None:
    run_librarian("--help")  # the first one reads the files from disk
    started = time.monotonic()
    assert run_librarian("--help").returncode == 0
    assert time.monotonic() - started < 1


def test_help_names_every_command() -> None:
    text = run_librarian("--help").stdout
    for command in (
        "run",
        "status",
        "eval",
        "compare",
        "search",
        "publish",
        "trace",
        "episodes",
        "models",
        "doctor",
        "ui",
        "web",
    ):
        assert f"\n  {command} " in text


def test_status_of_an_archive_that_is_up_to_date_says_so(sample: Workspace) -> None:
    assert run_librarian("status", "--home", str(sample.home)).stdout.strip() == "all 57 outputs are up to date"


def test_status_names_what_is_out_of_date_and_why(sample_copy: Workspace) -> None:
    (sample_copy.home / "librarian.toml").write_text(CORE_SETTINGS + '[normalizer]\nname = "none"\n')
    text = run_librarian("status", "--home", str(sample_copy.home)).stdout
    assert "bm25_stem_index: stale: recipe: normalizer simplemma -> none; recipe: simplemma 2.0.0 -> none" in text
    assert "eval_scores: waiting: waits for bm25_stem_index" in text
    assert "published_index: waiting: waits for bm25_stem_index, eval_scores" in text
    assert len(text.splitlines()) == 3


def test_status_as_json_has_the_state_of_every_output(sample: Workspace) -> None:
    states = output(sample, "status")
    assert len(states) == 57
    assert {entry["state"] for entry in states} == {"fresh"}


def test_eval_as_json_has_every_figure_with_its_interval(sample: Workspace) -> None:
    scores = output(sample, "eval")["scores"]
    overall = {(row["mode"], row["metric"]): row for row in scores if row["slice"] == "all"}
    assert set(overall) == {(mode, metric) for mode in MODES for metric in (*METRICS, *JUMP_METRICS)}
    assert all(row["ci_low"] <= row["value"] <= row["ci_high"] for row in overall.values())
    assert {"all", "en", "cs", "paraphrase", "keyword", "dev", "test", "cs/test"} <= {row["slice"] for row in scores}


def test_eval_as_json_says_what_the_gold_set_can_tell(sample: Workspace) -> None:
    told = {row["metric"]: row for row in output(sample, "eval")["detectable"] if row["slice"] == "all"}
    assert set(told) == {"MRR@10", "R@1"}
    assert all(row["mode"] == DEFAULT_MODE and 0 < row["effect"] < 1 for row in told.values())


def test_eval_as_json_of_a_split_has_its_slices_only(sample: Workspace) -> None:
    found = output(sample, "eval", "--split", "test")
    assert found["queries"] == next(row["n_queries"] for row in found["scores"] if row["slice"] == "test")
    assert {row["slice"] for row in found["scores"]} >= {"test", "en/test", "paraphrase/test"}
    assert all("test" in row["slice"].split("/") for row in found["scores"] + found["detectable"])


def test_eval_shows_each_language_on_request_and_how_near_the_citations_are(sample: Workspace) -> None:
    text = run_librarian("eval", "--by", "language", "--home", str(sample.home)).stdout
    for language in ("cs", "en"):
        for mode in MODES:
            assert len(re.findall(rf"^{language} +{mode} ", text, re.MULTILINE)) == 2
    assert "jump-in: " in text
    assert f"{DEFAULT_MODE} MRR@10 " in text


def test_eval_exports_files_that_give_the_same_figures(sample: Workspace, tmp_path: Path) -> None:
    result = run_librarian("eval", "--trec", str(tmp_path / "trec"), "--home", str(sample.home))
    assert result.returncode == 0, result.stderr
    scores = {
        (row["mode"], row["metric"]): row["value"] for row in output(sample, "eval")["scores"] if row["slice"] == "all"
    }
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "trec" / "qrels.txt")))
    for mode in MODES:
        run = ir_measures.read_trec_run(str(tmp_path / "trec" / f"{mode}.run"))
        found = ir_measures.calc_aggregate([ir_measures.RR, ir_measures.nDCG @ 10], qrels, run)
        assert found[ir_measures.RR] == pytest.approx(scores[mode, "MRR"], abs=1e-6)
        assert found[ir_measures.nDCG @ 10] == pytest.approx(scores[mode, "nDCG@10"], abs=1e-6)


def test_the_export_of_a_split_has_its_queries_only(sample: Workspace, tmp_path: Path) -> None:
    run_librarian("eval", "--trec", str(tmp_path), "--split", "dev", "--home", str(sample.home))
    splits = {row["query_id"]: row["split"] for row in sample.warehouse.read("gold_set").to_pylist()}
    for name in ("qrels.txt", f"{DEFAULT_MODE}.run"):
        assert {splits[line.split()[0]] for line in (tmp_path / name).read_text().splitlines()} == {"dev"}


@pytest.mark.parametrize("mode", MODES)
def test_search_finds_what_is_said_and_cites_the_episode(mode: str, sample: Workspace) -> None:
    hits = output(sample, "search", "how fast do electrons drift in copper wire", "--mode", mode, "-k", "3")
    assert [hit["rank"] for hit in hits] == [1, 2, 3]
    assert hits[0]["episode_id"] == "ep03"
    assert hits[0]["citation"].startswith("Ep. ep03")


def test_search_in_czech_finds_another_form_of_the_word(sample: Workspace) -> None:
    stemmed = output(sample, "search", "zvonů", "--mode", "bm25_stem")
    assert any("zvon" in hit["text"].lower() and "zvonů" not in hit["text"].lower() for hit in stemmed)


def test_a_citation_points_inside_its_passage(sample: Workspace) -> None:
    passages = {
        row["chunk_id"]: row
        for episode in sample.archive.discover().episodes
        for row in sample.warehouse.read("chunks", episode).to_pylist()
    }
    hits = output(sample, "search", "bell rope tower ringing", "-k", "10")
    spoken = [hit for hit in hits if hit["layer"] == "transcript"]
    assert spoken
    for hit in spoken:
        passage = passages[hit["chunk_id"]]
        assert passage["start_ms"] <= hit["start_ms"] < passage["end_ms"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["search", " "], "blank"),
        (["search", "x", "--mode", "lucene"], ", ".join(MODES)),
        (["search", "x", "-k", "0"], "1 to 1000"),
        (["search", "x", "-k", "many"], "'-k'"),
        (["serach", "x"], "serach"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(arguments: list[str], said: str, sample: Workspace) -> None:
    result = run_librarian(*arguments, *(["--home", str(sample.home)] if arguments[0] == "search" else []))
    assert result.returncode == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("query", ['"; DROP TABLE chunks; --', ".*", "???", "🐝", "title:bell AND (", "\u0001x"])
def test_any_text_is_searched_literally(query: str, sample: Workspace) -> None:
    assert run_librarian("search", query, "--home", str(sample.home)).returncode == 0


def test_searching_before_the_first_run_says_what_to_do(tmp_path: Any) -> None:
    result = run_librarian("search", "x", "--home", str(tmp_path))
    assert result.returncode == 2
    assert "librarian run" in result.stderr


def test_episodes_lists_every_episode_with_title_length_and_status(sample: Workspace) -> None:
    catalogue = {row["episode_id"]: row for row in output(sample, "episodes")}
    assert list(catalogue) == sorted(catalogue)
    assert len(catalogue) == 10
    assert catalogue["ep01"]["title"]
    assert 60_000 < catalogue["ep01"]["duration_ms"] < 120_000
    assert {row["status"] for row in catalogue.values()} == {"ok"}


def test_models_names_sources_and_digests(sample: Workspace) -> None:
    text = " ".join(run_librarian("models", "--home", str(sample.home)).stdout.split())
    assert "d01c3014881c9c6f" in text
    assert "1571fc9827503943" in text


def test_doctor_finds_nothing_wrong_with_the_sample(sample: Workspace) -> None:
    result = run_librarian("doctor", "--home", str(sample.home))
    assert (result.returncode, result.stdout.strip().splitlines()[-1]) == (0, "all is well"), result.stdout


def test_doctor_names_what_is_broken(sample_copy: Workspace) -> None:
    (sample_copy.archive.notes_dir / "ep03.md").write_text("---\ntitle: [unclosed\n---\n")
    (sample_copy.archive.audio_dir / "Ep: 5.mp3").write_bytes(b"")
    (sample_copy.archive.gold_path).write_text("[{")
    result = run_librarian("doctor", "--home", str(sample_copy.home))
    assert result.returncode == 1
    broken = [line for line in result.stdout.splitlines() if line.startswith("!!")]
    assert len(broken) == 3
    for name in ("ep03.md", "Ep: 5.mp3", "gold_set.json"):
        assert any(name in line for line in broken), name


def test_home_may_come_from_the_environment(sample: Workspace) -> None:
    result = run_librarian("status", env=environment(LIBRARIAN_HOME=str(sample.home)))
    assert result.stdout.strip() == "all 57 outputs are up to date"


def test_control_characters_of_an_archive_dont_reach_the_terminal(sample_copy: Workspace) -> None:
    notes = sample_copy.archive.notes_dir / "ep03.md"
    notes.write_text(notes.read_text() + "\n## Escape\n\nzanzibar \x1b[31mred \u202eesrever\n")
    run_librarian("run", "--home", str(sample_copy.home))
    text = run_librarian("search", "zanzibar", "--mode", "bm25_raw", "--home", str(sample_copy.home)).stdout
    assert "zanzibar" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
