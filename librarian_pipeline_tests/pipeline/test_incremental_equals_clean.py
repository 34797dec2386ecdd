"""After any sequence of edits, what was derived step by step is what a build from nothing gives: row for row, hash for hash.

Whisper is a stand-in, and the embedding model the fallback; everything else is the real pipeline, without Dagster.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from librarian_pipeline.derivation.derive import derive
from librarian_pipeline.errors import LibrarianError
from librarian_pipeline.lineage.planning import Scope
from librarian_pipeline.storage import atomic
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.pipeline.small_archive import (
    SENTENCES,
    SETTINGS,
    add_audio,
    add_notes,
    add_published,
    small_archive,
    use_stand_in_transcriber,
    write_gold,
)
from librarian_pipeline_tests.pipeline.updating import bring, content
from librarian_pipeline_tests.silent import Silent

UNPUBLISHED = Scope(without=frozenset({"published_index"}))
"""A snapshot is named by its content, and takes most of the time of a run as small as these."""
SEQUENCES = int(os.environ.get("TEST_SEQUENCES", "30"))
EDITS = 5
DAMAGED = b"\xff\xfe\x00 no longer what it was"
EPISODES = st.sampled_from(["heard", "one", "two", "new"])
SOURCES = ("audio", "notes", "transcripts", "gold")
FILES = st.sampled_from(
    ["audio/heard.wav", "notes/one.md", "transcripts/one.vtt", "transcripts/two.vtt", "gold/gold_set.json"]
)
QUERIES = st.sampled_from(["who counted the grain", "what hunts in winter", "how the bell was made"])
SETTING_LINES = {
    "chunks": ("target_s = 20", "target_s = 10", "target_s = 30"),
    "embeddings": ('model = "char-ngram"',),
    "normalizer": ('name = "simplemma"', 'name = "suffix"', 'name = "none"'),
    "bm25": ("k1 = 1.5", "k1 = 0.5"),
    "fusion": ("depth = 100", "depth = 3"),
    "whisper": ("beam_size = 5", "beam_size = 2"),
    "transcripts": ('prefer = "audio"', 'prefer = "published"'),
    "audio": ("settle_s = 0",),
    "evaluation": ("bootstrap_resamples = 100",),
}


class Editing(RuleBasedStateMachine):
    """Edits an archive, and brings it up to date now and then."""

    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.home = Path(shutil.copytree(self.template, self.folder / "home"))
        self.chosen = {section: lines[0] for section, lines in SETTING_LINES.items()}

    @rule()
    def run(self) -> None:
        bring(self.home, UNPUBLISHED)

    @rule(episode=EPISODES, first=st.integers(0, 4), count=st.integers(1, 4))
    def publish(self, episode: str, first: int, count: int) -> None:
        add_published(self.home, episode, SENTENCES[first : first + count])

    @rule(episode=EPISODES, text=st.sampled_from(SENTENCES), title=st.sampled_from(["A title", "Another"]))
    def write_notes(self, episode: str, text: str, title: str) -> None:
        add_notes(self.home, episode, text, title)

    @rule(episode=EPISODES, seconds=st.sampled_from([2, 3]))
    def record(self, episode: str, seconds: float) -> None:
        add_audio(self.home, episode, seconds)

    @rule(episode=EPISODES, folder=st.sampled_from(["audio", "notes", "transcripts"]))
    def remove(self, episode: str, folder: str) -> None:
        for path in (self.home / folder).glob(f"{episode}.*"):
            path.unlink()

    @rule(episode=EPISODES, other=EPISODES)
    def rename_audio(self, episode: str, other: str) -> None:
        path = self.home / "audio" / f"{episode}.wav"
        if path.exists():
            path.replace(self.home / "audio" / f"{other}.wav")

    @rule(name=FILES)
    def touch(self, name: str) -> None:
        if (self.home / name).exists():
            os.utime(self.home / name)

    @rule(name=FILES)
    def damage(self, name: str) -> None:
        if (self.home / name).exists():
            (self.home / name).write_bytes(DAMAGED)

    @rule(query=QUERIES, episode=EPISODES)
    def ask(self, query: str, episode: str) -> None:
        write_gold(self.home, {"q1": (query, episode), "q2": ("what tells the way", "two")})

    @rule(section=st.sampled_from([name for name, lines in SETTING_LINES.items() if len(lines) > 1]), data=st.data())
    def change_setting(self, section: str, data: st.DataObject) -> None:
        self.chosen[section] = data.draw(st.sampled_from(SETTING_LINES[section]))
        lines = (f"[{name}]\n{line}\n" for name, line in self.chosen.items())
        (self.home / "librarian.toml").write_text("".join(lines))

    @rule(data=st.data())
    def derive_one_by_hand(self, data: st.DataObject) -> None:
        workspace = Workspace.open(self.home)
        items = [item for item in workspace.observe().recipes if item.asset not in UNPUBLISHED.without]
        item = data.draw(st.sampled_from(sorted(items)))
        with suppress(LibrarianError):  # a file that can't be read, or nothing to derive it from
            derive(workspace, item, Silent())

    def teardown(self) -> None:
        """A damaged file keeps its earlier output, which a build from nothing can't know: it goes in the end."""
        for path in [path for folder in SOURCES for path in (self.home / folder).iterdir()]:
            if path.read_bytes() == DAMAGED:
                path.unlink()
        bring(self.home, UNPUBLISHED)
        clean = self.folder / "clean"
        for folder in SOURCES:
            shutil.copytree(self.home / folder, clean / folder)
        shutil.copy2(self.home / "librarian.toml", clean)
        bring(clean, UNPUBLISHED)
        incremental, expected = content(self.home), content(clean)
        shutil.rmtree(self.folder)
        assert incremental == expected


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_in_transcriber(monkeypatch)
    monkeypatch.setattr(atomic, "flush_to_disk", lambda path: None)  # the power doesn't fail in this test


@pytest.mark.usefixtures("quick")
def test_incremental_equals_clean(tmp_path: Path) -> None:
    Editing.template = small_archive(tmp_path / "template")
    (Editing.template / "librarian.toml").write_text(SETTINGS)
    bring(Editing.template, UNPUBLISHED)
    run_state_machine_as_test(
        Editing,
        settings=settings(
            max_examples=SEQUENCES,
            stateful_step_count=EDITS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
