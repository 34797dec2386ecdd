"""What is derived for a candidate, what it shares, and that nothing of it reaches the archive's own warehouse."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from librarian_pipeline.comparison.candidates import candidates_of
from librarian_pipeline.comparison.deriving import FOLDER, NOT_DERIVED, DerivedCandidate, Workbench, files_of
from librarian_pipeline.lineage.outdated import State, verdicts
from librarian_pipeline.retrieval import indexing, reuse
from librarian_pipeline.retrieval.embedders.char_ngram import CharNgramEmbedder
from librarian_pipeline.settings import load_settings
from librarian_pipeline.storage.duckdb_mirror import DATABASE
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.comparison.conftest import EPISODES, update
from librarian_pipeline_tests.pipeline.small_archive import small_archive, use_stand_in_transcriber
from librarian_pipeline_tests.silent import Silent


def derive(workspace: Workspace, *asked: str) -> list[DerivedCandidate]:
    bench = Workbench(workspace)
    opened = [(candidate, bench.open(candidate)) for candidate in candidates_of(workspace.settings, asked)]
    derived = [bench.derive(candidate, own, Silent()) for candidate, own in opened]
    bench.clear_earlier()
    return derived


def derived_for(one: DerivedCandidate) -> set[str]:
    items = [str(item) for item in one.update.derived]
    assert len(items) == len(set(items))
    return set(items)


def of_episodes(*assets: str) -> set[str]:
    return {f"{asset}[{episode}]" for asset in assets for episode in EPISODES}


def own_files(workspace: Workspace) -> dict[str, tuple[str, int, int]]:
    """Digest, time and inode of all that is the archive's own."""
    return {
        str(path.relative_to(workspace.home)): (hashlib.sha256(path.read_bytes()).hexdigest(), stat.st_mtime_ns, stat.st_ino)
        for path in sorted(workspace.home.rglob("*"))
        if path.is_file() and not {FOLDER, ".cache", ".compare.lock"} & set(path.relative_to(workspace.home).parts)
        for stat in [path.stat()]
    }


def content(workspace: Workspace) -> dict[str, str]:
    """The version of each output; what is published is never a candidate's."""
    stored = workspace.observe().stored
    return {str(item): record.version for item, record in stored.items() if item.asset not in NOT_DERIVED}


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of another model, whose weights are not loaded."""
    for module in (indexing, reuse):
        monkeypatch.setattr(module, "load_embedder", lambda settings: CharNgramEmbedder())
    reuse._loaded.cache_clear()
    yield "all-MiniLM-L6-v2"
    reuse._loaded.cache_clear()


ALL_INDEXES = {"bm25_raw_index", "bm25_stem_index", "vector_index"}
DEPENDANTS = {
    "normalizer.name=snowball": {"bm25_stem_index", "eval_scores"},
    "bm25.k1=1.2": {"bm25_raw_index", "bm25_stem_index", "eval_scores"},
    "fusion.depth=2": {"eval_scores"},
    "embeddings.model=all-MiniLM-L6-v2": of_episodes("embeddings") | {"vector_index", "episodes", "eval_scores"},
    "chunks.target_s=20": of_episodes("chunks", "embeddings") | ALL_INDEXES | {"episodes", "eval_scores"},
    "checks.max_passage_tokens=16": {"episodes"},
    "dagster.executor=multiprocess": set(),
}


@pytest.mark.parametrize("asked", DEPENDANTS)
@pytest.mark.usefixtures("stand_in")
def test_exactly_what_depends_on_the_changes_is_derived(workspace: Workspace, asked: str) -> None:
    as_set, candidate = derive(workspace, asked)
    assert derived_for(as_set) == set()
    assert derived_for(candidate) == DEPENDANTS[asked]
    assert candidate.n_shared == as_set.n_outputs - len(DEPENDANTS[asked])
    assert candidate.problems == ()
    assert candidate.is_measured


def test_what_another_candidate_has_is_taken_over_from_it(workspace: Workspace) -> None:
    asked = ["chunks.target_s=20", "chunks.target_s=20,normalizer.name=none", "chunks.target_s=20,fusion.depth=2"]
    _, first, second, third = derive(workspace, *asked)
    assert derived_for(first) == DEPENDANTS["chunks.target_s=20"]
    assert derived_for(second) == {"bm25_stem_index", "eval_scores"}
    assert derived_for(third) == {"eval_scores"}


def test_speech_is_heard_once_for_all_candidates_that_hear_it_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_in_transcriber(monkeypatch)
    workspace = Workspace.open(small_archive(tmp_path / "home"))
    update(workspace)
    _, first, second = derive(workspace, "whisper.beam_size=1", "whisper.beam_size=1,fusion.c=10")
    heard = {f"{asset}[heard]" for asset in ("transcripts", "chunks", "embeddings")}
    assert derived_for(first) == heard | ALL_INDEXES | {"episodes", "eval_scores"}
    assert derived_for(second) == {"eval_scores"}
    [said] = {row["text"] for row in second.workspace.warehouse.read("transcripts", "heard").to_pylist()[1:]}
    assert said == "with a beam of 1"


def test_where_nothing_is_derived_yet_the_candidates_share_it_all_the_same(workspace: Workspace) -> None:
    for path in workspace.warehouse.root.glob("*/*.parquet"):
        path.unlink()
    as_set, candidate = derive(workspace, "fusion.depth=2")
    assert len(derived_for(as_set)) == as_set.n_outputs == 5 * len(EPISODES) + 6
    assert derived_for(candidate) == {"eval_scores"}
    assert list(workspace.warehouse.root.glob("*/*.parquet")) == []


def test_the_archives_warehouse_is_left_as_it_is_to_the_byte(workspace: Workspace) -> None:
    before = own_files(workspace)
    assert {f"warehouse/{DATABASE}", "published/CURRENT"} <= before.keys()
    derive(workspace, "chunks.target_s=20,normalizer.name=none", "fusion.depth=2")
    assert own_files(workspace) == before


def test_candidates_have_no_database(workspace: Workspace) -> None:
    derive(workspace, "normalizer.name=none")
    assert list((workspace.warehouse.root / FOLDER).rglob(f"*{DATABASE}*")) == []


def test_what_is_shared_is_one_file_on_disk(workspace: Workspace) -> None:
    _, candidate = derive(workspace, "normalizer.name=none")
    own, candidates = workspace.warehouse, candidate.workspace.warehouse
    assert candidates.path("chunks", "ep07").samefile(own.path("chunks", "ep07"))
    assert not candidates.path("bm25_stem_index").samefile(own.path("bm25_stem_index"))


def test_a_candidate_comes_to_what_switching_comes_to(workspace: Workspace) -> None:
    _, candidate = derive(workspace, "chunks.target_s=20,normalizer.name=none,fusion.c=10")
    toml = '[embeddings]\nmodel = "char-ngram"\n[chunks]\ntarget_s = 20\n[normalizer]\nname = "none"\n[fusion]\nc = 10\n'
    (workspace.home / "librarian.toml").write_text(toml)
    switched = Workspace(workspace.home, load_settings(workspace.home))
    update(switched)
    assert content(candidate.workspace) == content(switched)


def test_a_file_that_cannot_be_read_leaves_a_candidate_what_switching_leaves(workspace: Workspace) -> None:
    (workspace.home / "notes" / "ep06.md").write_text("---\ntitle: [unclosed\n---\n")
    as_set, candidate = derive(workspace, "fusion.c=10")
    for one in (as_set, candidate):
        assert [problem.split(":")[0] for problem in one.problems] == ["notes[ep06]"]
        assert one.is_measured
    (workspace.home / "librarian.toml").write_text('[embeddings]\nmodel = "char-ngram"\n[fusion]\nc = 10\n')
    switched = Workspace.open(workspace.home)
    update(switched)
    assert content(candidate.workspace) == content(switched)


def test_a_second_comparison_takes_over_what_the_first_one_derived(workspace: Workspace) -> None:
    derive(workspace, "chunks.target_s=20")
    _, again, other = derive(workspace, "chunks.target_s=20", "chunks.target_s=20,normalizer.name=none")
    assert derived_for(again) == set()
    assert derived_for(other) == {"bm25_stem_index", "eval_scores"}


def test_a_second_comparison_leaves_only_its_own_candidates(workspace: Workspace) -> None:
    derive(workspace, "fusion.depth=2", "fusion.depth=3")
    derived = derive(workspace, "fusion.depth=4")
    left = [path for path in (workspace.warehouse.root / FOLDER).glob("*/*") if path.is_dir()]
    assert sorted(left) == sorted(one.workspace.warehouse.root for one in derived)


def test_what_an_interrupted_comparison_derived_is_taken_over(workspace: Workspace) -> None:
    bench = Workbench(workspace)
    _, candidate = candidates_of(workspace.settings, ["chunks.target_s=20"])
    bench.derive(candidate, bench.open(candidate), Silent())
    _, again = derive(workspace, "chunks.target_s=20")
    assert derived_for(again) == set()


def test_what_an_earlier_comparison_made_of_other_files_is_not_taken_over(workspace: Workspace) -> None:
    derive(workspace, "chunks.target_s=20")
    notes = workspace.home / "notes" / "ep06.md"
    notes.write_text(notes.read_text() + "\n# New\n\nSomething new.\n")
    as_set, candidate = derive(workspace, "chunks.target_s=20")
    changed = {"notes[ep06]", "chunks[ep06]", "embeddings[ep06]", "episodes", "eval_scores", *ALL_INDEXES}
    assert derived_for(as_set) == changed
    assert derived_for(candidate) == changed - {"notes[ep06]"}


def test_a_candidate_whose_index_fails_is_not_measured_and_says_why(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the stemmer is broken")

    monkeypatch.setattr("librarian_pipeline.derivation.indexes.build_stem_index", fail)
    as_set, candidate = derive(workspace, "normalizer.name=none,fusion.depth=2")
    assert as_set.is_measured
    assert not candidate.is_measured
    assert candidate.problems == ("bm25_stem_index: RuntimeError: the stemmer is broken",)


def test_a_candidate_is_up_to_date_by_its_own_settings(workspace: Workspace) -> None:
    _, candidate = derive(workspace, "chunks.target_s=20")
    found = verdicts(candidate.workspace.observe())
    assert {verdict.state for item, verdict in found.items() if item.asset not in NOT_DERIVED} == {State.FRESH}


@pytest.mark.parametrize("source", ["notes/ep06.md", "transcripts/ep07.srt", "gold/gold_set.json", "notes/ep99.md"])
def test_a_change_of_any_file_is_seen(workspace: Workspace, source: str) -> None:
    before = files_of(workspace)
    path: Path = workspace.home / source
    path.write_text((path.read_text() if path.exists() else "") + "\n\n")
    assert files_of(Workspace.open(workspace.home)) != before
