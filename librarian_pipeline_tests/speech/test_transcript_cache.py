"""What was heard once is kept, by audio, recipe and language; anything that isn't whole counts as not there."""

from pathlib import Path

import pyarrow as pa
import pytest

from librarian_pipeline.speech.transcript_cache import Heard, TranscriptCache
from librarian_pipeline.storage.schemas import SPEECH_SPANS, TRANSCRIPTS
from librarian_pipeline_tests.pipeline.small_archive import segment

RECIPE = {"beam_size": 5}


def heard(episode: str) -> Heard:
    rows = [segment(episode, 0, 0, 1_000, "Good evening.")]
    spans = [{"episode_id": episode, "start_ms": 0, "end_ms": 1_000}]
    return Heard(
        pa.Table.from_pylist(rows, schema=TRANSCRIPTS), pa.Table.from_pylist(spans, schema=SPEECH_SPANS), {"model": "base"}
    )


def test_what_was_heard_comes_back_under_the_name_of_the_episode_that_asks(tmp_path: Path) -> None:
    cache = TranscriptCache(tmp_path)
    cache.put("sha", RECIPE, "en", heard("ep01"))
    found = cache.get("sha", RECIPE, "en", "ep09")
    expected = heard("ep09")
    assert found is not None
    assert found.segments.equals(expected.segments)
    assert found.speech.equals(expected.speech)
    assert found.facts == expected.facts


@pytest.mark.parametrize(
    ("sha", "recipe", "language"), [("other", RECIPE, "en"), ("sha", {"beam_size": 1}, "en"), ("sha", RECIPE, None)]
)
def test_other_audio_another_recipe_or_language_is_another_transcript(
    tmp_path: Path, sha: str, recipe: dict[str, int], language: str | None
) -> None:
    cache = TranscriptCache(tmp_path)
    cache.put("sha", RECIPE, "en", heard("ep01"))
    assert cache.get(sha, recipe, language, "ep01") is None


@pytest.mark.parametrize("damage", [b"", b"PAR1 and nothing more"])
def test_a_damaged_file_counts_as_not_there(tmp_path: Path, damage: bytes) -> None:
    cache = TranscriptCache(tmp_path)
    cache.put("sha", RECIPE, "en", heard("ep01"))
    [path] = tmp_path.glob("*.parquet")
    path.write_bytes(damage)
    assert cache.get("sha", RECIPE, "en", "ep01") is None
