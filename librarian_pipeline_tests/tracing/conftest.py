"""A small archive, derived in this process: one episode that is heard by a stand-in for Whisper, and published ones."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mutagen
import pyarrow as pa
import pytest

from librarian_pipeline.derivation import speech
from librarian_pipeline.derivation.step import Step
from librarian_pipeline.derivation.updating import Update, bring_up_to_date, in_this_process
from librarian_pipeline.lineage.planning import Planner, Scope
from librarian_pipeline.speech.transcript_cache import Heard
from librarian_pipeline.storage.schemas import SPEECH_SPANS, TRANSCRIPTS
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import GOLD_SET, SAMPLE, copy_sources

SETTINGS = '[embeddings]\nmodel = "char-ngram"\n[checks]\nfail_hallucination_share = 1.0\n'
HEARD, TAGGED = "ep03", "tagged"
EXCLUDED, LONG = 4, 6
"""The segments of the heard episode that are kept out of passages, and that are cut between words."""


class Silent:
    def report(self, stage: str, item: str, done: float, total: float, unit: str) -> None:
        """Says nothing."""


def heard_segments(episode: str) -> list[dict[str, Any]]:
    """Six short segments with one made up among them, a long one, and a short one, in 88 seconds."""
    spans = [(i * 6_000, i * 6_000 + 5_500) for i in range(6)] + [(36_000, 80_000), (80_500, 88_000)]
    rows = []
    for idx, (start_ms, end_ms) in enumerate(spans):
        n_words = (end_ms - start_ms) // 500
        rows.append(
            {
                **dict.fromkeys(TRANSCRIPTS.names),
                "episode_id": episode,
                "segment_idx": idx,
                "start_ms": start_ms,
                "end_ms": end_ms,
                "text": " ".join(f"{episode}word{idx}x{n}" for n in range(n_words)) + ".",
                "language": "en",
                "source": "whisper",
                "avg_logprob": -0.25,
                "window_id": idx // 3,
                "decoding_pass": 1,
                "flags": ["invented_in_silence"] if idx == EXCLUDED else [],
                "excluded": idx == EXCLUDED,
            }
        )
    return rows


def heard(step: Step, path: Path) -> Heard:
    spans = [{"episode_id": step.partition, "start_ms": 0, "end_ms": 88_000}]
    segments = pa.Table.from_pylist(heard_segments(step.partition), schema=TRANSCRIPTS)
    return Heard(segments, pa.Table.from_pylist(spans, schema=SPEECH_SPANS), {})


def update(home: Path) -> Workspace:
    """Brings the archive up to date, and opens it as a later process would."""
    workspace = Workspace.open(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speech, "_transcribed", heard)
        done: Update = bring_up_to_date(workspace, Planner(Scope()), Silent(), in_this_process(workspace, Silent()))
    assert done.errors == {}, done.traces
    return Workspace.open(home)


@pytest.fixture(scope="package", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIBRARIAN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="package")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The archive, up to date. For tests that only read."""
    home = copy_sources(tmp_path_factory.mktemp("traced") / "archive", only=(HEARD, "ep06", "ep07", "ep10"))
    shutil.copy2(SAMPLE / "gold" / GOLD_SET, home / "gold")  # asks for other episodes as well
    tagged = home / "audio" / f"{TAGGED}.opus"
    shutil.copy(SAMPLE / "audio" / "ep03.opus", tagged)
    tags = mutagen.File(tagged)
    tags.update({"CHAPTER001": "00:00:10.000", "CHAPTER001NAME": "The kettle"})
    tags.save()
    (home / "librarian.toml").write_text(SETTINGS)
    return update(home)


@pytest.fixture
def archive_copy(archive: Workspace, tmp_path: Path) -> Workspace:
    """For tests that change things."""
    home = tmp_path / "archive"
    shutil.copytree(archive.home, home)
    for path in (home / "audio").iterdir():
        os.utime(path, ns=(1_700_000_000_000_000_000, 1_700_000_000_000_000_000))
    return Workspace.open(home)


@pytest.fixture(scope="package")
def chunks(archive: Workspace) -> list[dict[str, Any]]:
    """The rows of `chunks` of all episodes."""
    return [
        row
        for episode in archive.archive.discover().episodes
        for row in archive.warehouse.read("chunks", episode).to_pylist()
    ]
