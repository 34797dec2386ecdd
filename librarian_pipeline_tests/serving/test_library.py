"""The current edition, whatever is published, damaged, mended or collected while it is served."""

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from librarian_pipeline.errors import LibrarianError, UsageError
from librarian_pipeline.retrieval.embedders import Embedder, load_embedder
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.serving import library as library_module
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.serving.library import Library
from librarian_pipeline.settings import EmbeddingSettings
from librarian_pipeline.storage.snapshot import Snapshot, SnapshotError
from librarian_pipeline_tests.serving.publishing import STEP_MS, flip_a_bit, publish_number, workspace_at

QUERY = "the owl in the pit"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    publish_number(tmp_path, 1)
    return tmp_path


@pytest.fixture
def library(home: Path) -> Library:
    return Library(workspace_at(home))


def folder(home: Path, name: str) -> Path:
    return home / "published" / name


def what_is_in(edition: Edition) -> dict[str, Any]:
    """All that a request may ask of it."""
    found = {mode: [(hit.passage.text, hit.citation) for hit in edition.search(QUERY, mode, 50)] for mode in MODES}
    return {**found, "passages": edition.passages_of("ep01"), "titles": [row["title"] for row in edition.episodes.values()]}


def test_a_passage_is_cited_at_the_second_that_matches_rather_than_at_its_start(library: Library) -> None:
    [hit] = library.edition().search("owl", "bm25_raw", 1)
    assert (hit.passage.start_ms, hit.citation.start_ms) == (1, STEP_MS + 1)


def test_what_is_published_is_taken_up_by_the_next_request(home: Path, library: Library) -> None:
    first = library.edition()
    second = publish_number(home, 2)
    assert library.edition().id == second != first.id
    assert library.edition() is library.edition()


def test_a_request_under_way_ends_on_its_snapshot_though_that_is_collected(home: Path, library: Library) -> None:
    expected = what_is_in(Library(workspace_at(home)).edition())

    def request(edition: Edition) -> dict[str, Any]:
        for number in range(2, 7):
            publish_number(home, number)
        assert not folder(home, edition.id).exists()
        return what_is_in(edition)

    assert library.carry_out(request) == expected


def test_bits_that_turn_after_it_was_opened_change_nothing(home: Path, library: Library) -> None:
    expected = what_is_in(Library(workspace_at(home)).edition())
    edition = library.edition()
    for path in folder(home, edition.id).rglob("*.parquet"):
        flip_a_bit(path)
    assert what_is_in(library.edition()) == expected
    assert library.edition().warning is None


def cut_short(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:-7])

    return damage


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a bit of a table": lambda folder: flip_a_bit(folder / "chunks" / "ep01.parquet"),
    "a bit of a transcript": lambda folder: flip_a_bit(folder / "transcripts" / "ep02.parquet"),
    "a table cut short": cut_short("vector_index/all.parquet"),
    "a table gone": lambda folder: (folder / "bm25_raw_index" / "all.parquet").unlink(),
    "a bit of the manifest": lambda folder: flip_a_bit(folder / "manifest.json"),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "no folder": shutil.rmtree,
}


@pytest.mark.parametrize(
    ("damage", "is_running"), [*((damage, True) for damage in DAMAGES), ("a bit of a table", False), ("no manifest", False)]
)
def test_in_place_of_a_damaged_snapshot_the_one_before_is_served_with_a_warning(
    home: Path, library: Library, damage: str, is_running: bool
) -> None:
    expected = what_is_in(Library(workspace_at(home)).edition())
    if is_running:
        library.edition()
    damaged = publish_number(home, 2)
    DAMAGES[damage](folder(home, damaged))
    edition = library.edition()
    assert what_is_in(edition) == expected
    assert edition.warning is not None
    assert edition.warning.startswith(f"the snapshot {damaged} ")
    assert edition.warning.endswith(f"; {edition.id} is served instead")


def test_where_a_person_went_back_to_a_damaged_one_none_of_those_after_it_is_served(home: Path) -> None:
    first = workspace_at(home).snapshots.current_id()
    publish_number(home, 2)
    workspace_at(home).snapshots.roll_back()
    flip_a_bit(folder(home, str(first)) / "chunks" / "ep01.parquet")
    with pytest.raises(SnapshotError, match=f"{first} is damaged"):
        Library(workspace_at(home)).edition()


def test_a_damaged_snapshot_that_was_mended_is_served_by_the_next_request(home: Path, library: Library) -> None:
    library.edition()
    damaged = publish_number(home, 2)
    table = folder(home, damaged) / "chunks" / "ep01.parquet"
    whole = table.read_bytes()
    flip_a_bit(table)
    assert library.edition().warning is not None
    table.write_bytes(whole)
    assert (library.edition().id, library.edition().warning) == (damaged, None)


def test_a_snapshot_that_was_refused_is_read_again_only_after_a_while(
    home: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.edition()
    flip_a_bit(folder(home, publish_number(home, 2)) / "chunks" / "ep01.parquet")
    looked: list[str] = []
    verify = Snapshot.verify
    monkeypatch.setattr(Snapshot, "verify", lambda self: (looked.append(self.id), verify(self)))
    for _ in range(5):
        assert library.edition().warning is not None
    assert len(looked) == 1
    monkeypatch.setattr(library_module, "RETRY_S", 0)
    assert library.edition().warning is not None
    assert len(looked) == 2


def test_where_none_is_whole_the_error_says_so_each_time_and_what_to_do(home: Path, library: Library) -> None:
    name = workspace_at(home).snapshots.current_id()
    flip_a_bit(folder(home, str(name)) / "chunks" / "ep01.parquet")
    for _ in range(2):
        with pytest.raises(SnapshotError, match=rf"{name} is damaged: chunks/ep01.parquet .*librarian run"):
            library.edition()


def test_a_pointer_that_names_nothing_leaves_the_edition_and_warns(home: Path, library: Library) -> None:
    served = library.edition().id
    (home / "published" / "CURRENT").write_text("../../etc/passwd\n")
    edition = library.edition()
    assert edition.id == served
    assert "names no snapshot" in str(edition.warning)


def test_going_back_to_what_was_served_takes_the_warning_away(home: Path, library: Library) -> None:
    first = library.edition().id
    flip_a_bit(folder(home, publish_number(home, 2)) / "chunks" / "ep01.parquet")
    assert library.edition().warning is not None
    workspace_at(home).snapshots.roll_back()
    assert (library.edition().id, library.edition().warning) == (first, None)


def test_a_snapshot_that_this_program_cannot_search_does_not_stop_what_was_served(
    home: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = library.edition().id
    second = publish_number(home, 2)

    def refused(snapshot: Snapshot, *more: Any) -> Edition:
        raise UsageError(f"{snapshot.id} was made by another version", "run it")

    monkeypatch.setattr(Edition, "open", refused)
    edition = library.edition()
    assert edition.id == first
    assert f"{second} was made by another version" in str(edition.warning)


def test_before_the_first_publication_the_error_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(LibrarianError, match="there is no published index yet: run `librarian run --home"):
        Library(workspace_at(tmp_path)).edition()


def test_what_is_published_after_that_is_served(tmp_path: Path) -> None:
    library = Library(workspace_at(tmp_path))
    with pytest.raises(LibrarianError):
        library.edition()
    assert publish_number(tmp_path, 1) == library.edition().id


def test_while_one_request_opens_a_snapshot_the_others_are_carried_out_on_the_one_before(
    home: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = library.edition().id
    second = publish_number(home, 2)
    opening, go_on = threading.Event(), threading.Event()
    original = Edition.open

    def slowly(*arguments: Any) -> Edition:
        opening.set()
        assert go_on.wait(10)
        return original(*arguments)

    monkeypatch.setattr(Edition, "open", slowly)
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(library.edition)
        assert opening.wait(10)
        assert pool.submit(library.edition).result(timeout=5).id == first
        go_on.set()
        assert slow.result(timeout=10).id == second
    assert library.edition().id == second


def test_the_first_requests_open_a_snapshot_once(home: Path, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    original = Edition.open

    def counted(snapshot: Snapshot, *more: Any) -> Edition:
        opened.append(snapshot.id)
        return original(snapshot, *more)

    monkeypatch.setattr(Edition, "open", counted)
    with ThreadPoolExecutor(16) as pool:
        editions = list(pool.map(lambda _: library.edition(), range(16)))
    assert len(opened) == 1
    assert all(edition is editions[0] for edition in editions)


def test_the_model_is_loaded_once_by_the_first_dense_query_and_never_by_bm25(home: Path) -> None:
    loaded: list[str] = []

    def load(model: EmbeddingSettings) -> Embedder:
        loaded.append(model.model)
        return load_embedder(model)

    library = Library(workspace_at(home), load)

    def search(mode: str) -> None:
        library.edition().search(QUERY, mode)

    search("bm25_raw")
    search("bm25_stem")
    assert loaded == []
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(search, ["dense", "hybrid", "hybrid_cc", "bm25_raw"] * 4))
    publish_number(home, 2)
    search("dense")
    assert loaded == ["char-ngram"]


def test_warming_up_loads_the_model_before_the_first_query(home: Path) -> None:
    loaded: list[str] = []

    def load(model: EmbeddingSettings) -> Embedder:
        loaded.append(model.model)
        return load_embedder(model)

    Library(workspace_at(home), load).warm_up()
    assert loaded == ["char-ngram"]
