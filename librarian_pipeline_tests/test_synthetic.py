"""Made-up archives: the same ones each time, and such as the pipeline takes without a complaint."""

from itertools import pairwise
from pathlib import Path

import pytest

from librarian_pipeline.archive.notes import read_front_matter, read_notes
from librarian_pipeline.archive.published import read_published
from librarian_pipeline.derivation.updating import bring_up_to_date, in_this_process
from librarian_pipeline.evaluation.gold import read_gold_set
from librarian_pipeline.evaluation.measure import stored_score_table
from librarian_pipeline.lineage.graph import items
from librarian_pipeline.lineage.planning import Planner, Scope
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import SAMPLE
from librarian_pipeline_tests.silent import Silent
from librarian_pipeline_tests.synthetic import write_archive
from librarian_pipeline_tests.synthetic.__main__ import main

N = 6


def contents(home: Path) -> dict[str, bytes]:
    return {path.relative_to(home).as_posix(): path.read_bytes() for path in home.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of six episodes. For tests that only read."""
    home = tmp_path_factory.mktemp("made-up") / "archive"
    write_archive(home, N, minutes=3)
    return home


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(home: Path, tmp_path: Path) -> None:
    write_archive(tmp_path / "again", N, minutes=3)
    write_archive(tmp_path / "other", N, minutes=3, seed=1)
    again, other = contents(tmp_path / "again"), contents(tmp_path / "other")
    assert again == contents(home)
    assert other.keys() == again.keys()
    assert [name for name in again if again[name] == other[name]] == ["librarian.toml"]


def test_more_episodes_change_none_of_the_others(home: Path, tmp_path: Path) -> None:
    write_archive(tmp_path / "more", N + 2, minutes=3)
    more, fewer = contents(tmp_path / "more"), contents(home)
    assert {name for name in fewer if more[name] != fewer[name]} == {"gold/gold_set.json"}
    assert len(more) == len(fewer) + 4


def test_the_cues_of_a_transcript_go_forward_and_do_not_overlap(home: Path) -> None:
    for path in (home / "transcripts").iterdir():
        rows = read_published(path, path.stem, "en").rows
        assert len(rows) > 20
        assert all(0 <= row["start_ms"] < row["end_ms"] for row in rows)
        assert all(before["end_ms"] <= after["start_ms"] for before, after in pairwise(rows))
        assert 180_000 <= rows[-1]["end_ms"] < 200_000


def test_the_sections_of_notes_begin_when_a_cue_does_and_have_headings_of_their_own(home: Path) -> None:
    for path in (home / "notes").iterdir():
        rows = read_published(home / "transcripts" / f"{path.stem}.vtt", path.stem, "en").rows
        sections = read_notes(path, path.stem)
        assert {row["start_ms"] // 1_000 for row in sections} <= {row["start_ms"] // 1_000 for row in rows}
        assert len({row["heading"] for row in sections}) == len(sections) > 1


def test_episodes_are_in_two_languages_which_their_notes_declare(home: Path) -> None:
    assert {read_front_matter(path).language for path in (home / "notes").iterdir()} == {"en", "cs"}


def test_words_come_up_by_zipfs_law(tmp_path: Path) -> None:
    """That of rank r in proportion to 1/r: the first about twice as often as the second, ten times as often as the tenth."""
    from random import Random

    from librarian_pipeline_tests.synthetic.words import ENGLISH, draw

    drawn = draw(ENGLISH, 100_000, Random(1))
    first, second, tenth = (drawn.count(ENGLISH.words[rank]) for rank in (0, 1, 9))
    assert first / second == pytest.approx(2, rel=0.1)
    assert first / tenth == pytest.approx(10, rel=0.15)


def test_the_pipeline_derives_everything_and_every_judged_span_resolves(home: Path, tmp_path: Path) -> None:
    write_archive(tmp_path / "archive", 12, minutes=3)
    workspace = Workspace.open(tmp_path / "archive")
    done = bring_up_to_date(workspace, Planner(Scope()), Silent(), in_this_process(workspace, Silent()))
    episodes = workspace.archive.discover().episodes
    assert (sorted(done.derived), done.errors, done.left) == (sorted(items(episodes)), {}, [])
    assert workspace.failures(episodes) == {}
    table = stored_score_table(workspace.warehouse)
    assert (table.n_queries, table.n_lost_spans) == (6, 0)
    assert [row["findings"] for row in workspace.warehouse.read("episodes").to_pylist()] == [[]] * 12
    # The words of a query are the rarest of its answer, so that a search that works finds most of them.
    assert table.values["bm25_raw", "R@5"] > 0.7


def test_queries_are_of_several_kinds_and_about_both_layers(tmp_path: Path) -> None:
    write_archive(tmp_path / "archive", 40, minutes=1)
    queries = read_gold_set(tmp_path / "archive" / "gold" / "gold_set.json")
    assert {query.kind for query in queries} == {"keyword", "synthesis"}
    assert {span.layer for query in queries for span in query.relevant} == {"transcript", "notes"}


@pytest.mark.parametrize("target", ["sample", "synthetic"])
def test_made_up_episodes_never_get_among_others(home: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = SAMPLE if target == "sample" else home
    before = contents(folder)
    assert main([str(folder), "--episodes", "2"]) == 2
    assert "name a new folder" in capsys.readouterr().err
    assert contents(folder) == before


def test_no_made_up_episode_has_an_id_of_the_sample(home: Path) -> None:
    made_up, sample = ({path.stem for path in (folder / "notes").iterdir()} for folder in (home, SAMPLE))
    assert not made_up & sample


def test_the_command_writes_as_many_episodes_as_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "archive"), "--episodes", "3", "--minutes", "1"]) == 0
    assert len(list((tmp_path / "archive" / "transcripts").iterdir())) == 3
    assert "3 episodes in" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--episodes", "--minutes"])
def test_an_archive_of_nothing_is_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "archive"), option, "0"])
    assert not (tmp_path / "archive").exists()
