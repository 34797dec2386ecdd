"""A small archive that tests change, with a stand-in for Whisper; the fallback stands in for the embedding model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from librarian_pipeline.settings import CheckSettings, TranscriptSettings, WhisperSettings
from librarian_pipeline.speech import transcript
from librarian_pipeline.speech.coverage import coverage
from librarian_pipeline.speech.transcribe import Transcript
from librarian_pipeline_tests.speech.sounds import write_tone

SETTINGS = """
[embeddings]
model = "char-ngram"

[audio]
settle_s = 0

[chunks]
target_s = 20
max_s = 30

[evaluation]
bootstrap_resamples = 100
"""
SENTENCES = (
    "The miller counted his sacks before the rain came.",
    "Salt was carried over the mountains on the backs of mules.",
    "An owl hears a mouse under the snow.",
    "The bell was cast in a pit behind the church.",
    "Nobody in the village had ever seen the sea.",
    "She wound the clock every Sunday evening.",
    "The ferry leaves when the water is high enough.",
    "Bees dance on the comb to tell the way.",
)


def add_published(home: Path, episode: str, sentences: Sequence[str], step_s: int = 8) -> None:
    cues = [
        f"{_clock(step_s * number)} --> {_clock(step_s * (number + 1))}\n{text}\n" for number, text in enumerate(sentences)
    ]
    _write(home / "transcripts" / f"{episode}.vtt", "WEBVTT\n\n" + "\n".join(cues))


def _clock(seconds: int) -> str:
    return f"00:{seconds // 60:02d}:{seconds % 60:02d}.000"


def add_notes(home: Path, episode: str, text: str, title: str = "A title") -> None:
    head = f"---\ntitle: {title}\nlanguage: en\n---\nHello.\n\n"
    _write(home / "notes" / f"{episode}.md", f"{head}## What it is about\n\n{text}\n")


def add_audio(home: Path, episode: str, seconds: float) -> None:
    (home / "audio").mkdir(parents=True, exist_ok=True)
    write_tone(home / "audio" / f"{episode}.wav", "wav", "pcm_s16le", 16_000, 1, seconds)


def write_gold(home: Path, queries: dict[str, tuple[str, str]]) -> None:
    """Queries by their id: the text, and the episode whose first half minute answers it."""
    rows = [
        {
            "id": query_id,
            "query": text,
            "language": "en",
            "kind": "paraphrase",
            "split": "dev",
            "critical": False,
            "relevant": [{"episode": episode, "layer": "transcript", "start": "00:00", "end": "00:20"}],
        }
        for query_id, (text, episode) in queries.items()
    ]
    _write(home / "gold" / "gold_set.json", json.dumps(rows))


def small_archive(home: Path) -> Path:
    """`heard` has audio, `one` and `two` have published transcripts and notes."""
    _write(home / "librarian.toml", SETTINGS)
    add_audio(home, "heard", 3)
    add_published(home, "one", SENTENCES[:6])
    add_notes(home, "one", "A mill, and the salt road behind it.")
    add_published(home, "two", SENTENCES[2:])
    add_notes(home, "two", "An owl, a bell and a clock.")
    write_gold(home, {"q1": ("who counted the grain", "one"), "q2": ("what hunts below the white ground", "two")})
    return home


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


class StandInTranscriber:
    """Says what it was given: how many samples, and with which beam size they were to be decoded."""

    def __init__(self, whisper: WhisperSettings) -> None:
        self._whisper = whisper

    def transcribe(self, samples: Any, episode_id: str, language: str | None, on_progress: Any = None) -> Transcript:
        rows = [
            segment(episode_id, 0, 0, 1_000, f"{np.size(samples)} samples were heard"),
            segment(episode_id, 1, 1_000, 2_000, f"with a beam of {self._whisper.beam_size}"),
        ]
        return Transcript(rows, [(0, 2_000)], coverage(rows, [(0, 2_000)], 15), None, 0, 0, 0)


def segment(episode_id: str, index: int, start_ms: int, end_ms: int, text: str) -> dict[str, Any]:
    return {
        "episode_id": episode_id,
        "segment_idx": index,
        "start_ms": start_ms,
        "end_ms": end_ms,
        "text": text,
        "language": "en",
        "speaker": None,
        "source": "whisper",
        "avg_logprob": -0.2,
        "no_speech_prob": 0.0,
        "compression_ratio": 1.0,
        "window_id": 0,
        "words": None,
        "decoding_pass": 1,
        "flags": [],
        "excluded": False,
    }


def use_stand_in_transcriber(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(whisper: WhisperSettings, transcripts: TranscriptSettings, checks: CheckSettings) -> StandInTranscriber:
        return StandInTranscriber(whisper)

    monkeypatch.setattr(transcript, "_transcriber", made)
