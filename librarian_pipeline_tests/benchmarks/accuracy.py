"""Word error rates of the sample's audio against the scripts it was spoken from."""

from pathlib import Path

import jiwer

from librarian_pipeline.settings import Settings
from librarian_pipeline.speech.transcript import transcribe_file
from librarian_pipeline_tests.benchmarks.measuring import Figure
from librarian_pipeline_tests.pipeline.test_speech_quality import ENGLISH, MAX_ENGLISH_WER, normalized, script

NAME = "accuracy"
AUDIO = Path(__file__).absolute().parents[2] / "data" / "audio"
CZECH = "ep05"


def run(quick: bool) -> list[Figure]:
    """One episode and the smaller model if `quick`."""
    settings = Settings(whisper={"model": "tiny.en" if quick else "base"})
    episodes = ENGLISH[:1] if quick else (*ENGLISH, CZECH)
    return [_figure(episode, "cs" if episode == CZECH else "en", settings) for episode in episodes]


def _figure(episode: str, language: str, settings: Settings) -> Figure:
    segments = transcribe_file(AUDIO / f"{episode}.opus", episode, language, settings).segments
    heard = " ".join(row["text"] for row in segments.to_pylist() if not row["excluded"])
    found = jiwer.process_words(normalized(script(episode)), normalized(heard))
    n_words = found.hits + found.substitutions + found.deletions
    kinds = {"deleted": found.deletions, "inserted": found.insertions, "substituted": found.substitutions}
    apart = ", ".join(f"{count / n_words:.2%} {kind}" for kind, count in kinds.items())
    bound = f"{MAX_ENGLISH_WER:.0%}" if language == "en" else "none"
    return Figure(
        "word error rate", f"{episode}, {n_words} words, {settings.whisper.model}", f"{found.wer:.2%}: {apart}", bound
    )
