"""What is derived step by step, after one change and another, is what a build from nothing gives."""

import json
from pathlib import Path

import pytest

from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import copy_sources
from librarian_pipeline_tests.pipeline.updating import bring

EPISODES = ("ep07", "ep10")
CHANGES = {
    "bm25": "[bm25]\nk1 = 0.2\nb = 0.0\n",
    "normalizer": '[normalizer]\nname = "suffix"\n',
    "chunks": "[chunks]\ntarget_s = 20\nmax_s = 30\n",
}
FALLBACK = '[embeddings]\nmodel = "char-ngram"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = copy_sources(tmp_path / "home", only=EPISODES)
    gold = home / "gold" / "gold_set.json"
    queries = json.loads(gold.read_text())
    here = [query for query in queries if all(span["episode"] in EPISODES for span in query["relevant"])]
    gold.write_text(json.dumps(here))
    (home / "librarian.toml").write_text(FALLBACK)
    return home


def derive(home: Path) -> dict[str, str]:
    """The version of each output once all is up to date."""
    assert bring(home).errors == {}
    workspace = Workspace.open(home)
    return {str(item): record.version for item, record in workspace.observe().stored.items()}


def test_after_each_change_of_a_setting_the_outputs_are_those_of_a_build_from_nothing(home: Path, tmp_path: Path) -> None:
    derive(home)
    for name, toml in CHANGES.items():
        (home / "librarian.toml").write_text(FALLBACK + toml)
        changed = derive(home)
        fresh = tmp_path / name
        copy_sources(fresh, only=EPISODES)
        (fresh / "gold" / "gold_set.json").write_bytes((home / "gold" / "gold_set.json").read_bytes())
        (fresh / "librarian.toml").write_text(FALLBACK + toml)
        assert changed == derive(fresh), name


def test_other_bm25_parameters_score_anew_though_the_postings_are_equal(home: Path) -> None:
    before = derive(home)
    (home / "librarian.toml").write_text(FALLBACK + CHANGES["bm25"])
    after = derive(home)
    assert after["eval_scores"] != before["eval_scores"]


def test_files_that_go_between_one_look_and_the_next_are_no_error(home: Path) -> None:
    derive(home)
    workspace = Workspace.open(home)
    discovery = workspace.archive.discover()
    (home / "notes" / "ep10.md").unlink()
    assert workspace.observe(discovery).sources
