"""What is dear is not done twice: an episode is transcribed once, and a text embedded once."""

from pathlib import Path

import pytest

from librarian_pipeline.retrieval.embedders import registry
from librarian_pipeline.retrieval.embedders.char_ngram import CharNgramEmbedder
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.pipeline.small_archive import (
    SETTINGS,
    StandInTranscriber,
    small_archive,
    use_stand_in_transcriber,
)
from librarian_pipeline_tests.pipeline.updating import bring


@pytest.fixture
def transcribed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The episodes that were transcribed."""
    episodes: list[str] = []
    use_stand_in_transcriber(monkeypatch)
    original = StandInTranscriber.transcribe

    def noted(self, samples, episode_id, *rest):  # type: ignore[no-untyped-def]
        episodes.append(episode_id)
        return original(self, samples, episode_id, *rest)

    monkeypatch.setattr(StandInTranscriber, "transcribe", noted)
    return episodes


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were embedded as passages."""
    given: list[str] = []
    original = CharNgramEmbedder.embed_passages

    def noted(self, texts, on_progress=None):  # type: ignore[no-untyped-def]
        given.extend(texts)
        return original(self, texts, on_progress)

    monkeypatch.setattr(CharNgramEmbedder, "embed_passages", noted)
    monkeypatch.setattr(CharNgramEmbedder, "embed_query", lambda self, text: original(self, [text])[0])
    return given


@pytest.fixture
def home(tmp_path: Path, transcribed: list[str], embedded: list[str]) -> Path:
    """Up to date; what that took is not counted."""
    home = small_archive(tmp_path / "home")
    bring(home)
    assert transcribed == ["heard"]
    transcribed.clear()
    embedded.clear()
    return home


def test_a_setting_that_is_tried_and_taken_back_transcribes_once(home: Path, transcribed: list[str]) -> None:
    (home / "librarian.toml").write_text(SETTINGS + "[whisper]\nbeam_size = 1\n")
    bring(home)
    assert transcribed == ["heard"]
    (home / "librarian.toml").write_text(SETTINGS)
    bring(home)
    assert transcribed == ["heard"]


def test_a_renamed_episode_is_not_heard_again(home: Path, transcribed: list[str]) -> None:
    (home / "audio" / "heard.wav").rename(home / "audio" / "listened.wav")
    update = bring(home)
    assert "transcripts[listened]" in [str(item) for item in update.derived]
    assert transcribed == []


def test_another_chunk_rule_embeds_only_new_texts(home: Path, embedded: list[str]) -> None:
    (home / "librarian.toml").write_text(SETTINGS.replace("target_s = 20", "target_s = 10"))
    bring(home)
    once = list(embedded)
    assert once
    assert len(set(once)) == len(once)
    # The notes' passages, and those of the short recording, are the ones that they were.
    assert not any("salt road behind" in text or "samples were heard" in text for text in once)
    (home / "librarian.toml").write_text(SETTINGS)
    bring(home)
    assert embedded == once


def test_the_same_text_in_two_episodes_is_embedded_once(home: Path, embedded: list[str]) -> None:
    notes = (home / "notes" / "one.md").read_bytes()
    (home / "notes" / "three.md").write_bytes(notes)
    bring(home)
    assert embedded == []


def test_other_weights_that_give_equal_vectors_are_named_by_the_index(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_code_digest", lambda: "0" * 64)
    bring(home)
    [model] = Workspace.open(home).warehouse.read("vector_index_model").to_pylist()
    assert model["digest"] == "0" * 64
