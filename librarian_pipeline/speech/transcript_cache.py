"""Transcription is dear, and depends on nothing but the audio and the recipe: what was heard once is kept.

So a file that was renamed, or put back, or a setting that was tried and taken back, costs no second transcription. The
cache is a folder of Parquet files, and can be deleted at any time.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from librarian_pipeline.storage.atomic import write_parquet
from librarian_pipeline.storage.provenance import Recipe, fingerprint
from librarian_pipeline.storage.schemas import SPEECH_SPANS, TRANSCRIPTS

_KEPT = b"heard"


@dataclass(frozen=True)
class Heard:
    """What was heard in an audio file: `segments` has the columns of `schemas.TRANSCRIPTS`, `speech` those of
    `SPEECH_SPANS`; `facts` are plain values about the work."""

    segments: pa.Table
    speech: pa.Table
    facts: Mapping[str, Any]


class TranscriptCache:
    """Transcripts in `folder`, by the audio's SHA-256, the recipe and the language that the episode declares."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, audio_sha256: str, recipe: Recipe, language: str | None, episode_id: str) -> Heard | None:
        """What was heard then, as the transcript of `episode_id`. None if it isn't here, or is damaged."""
        try:
            table = pq.read_table(self._path(audio_sha256, recipe, language), partitioning=None)
            kept = json.loads((table.schema.metadata or {})[_KEPT])
        except (OSError, ValueError, KeyError):  # pyarrow's ArrowInvalid is a ValueError
            return None
        segments = table.replace_schema_metadata()
        if segments.schema != TRANSCRIPTS:
            return None
        ids = pa.array([episode_id] * segments.num_rows, type=pa.string())
        spans = [{"episode_id": episode_id, "start_ms": start, "end_ms": end} for start, end in kept["speech"]]
        return Heard(
            segments.set_column(segments.schema.get_field_index("episode_id"), "episode_id", ids),
            pa.Table.from_pylist(spans, schema=SPEECH_SPANS),
            kept["facts"],
        )

    def put(self, audio_sha256: str, recipe: Recipe, language: str | None, heard: Heard) -> None:
        speech = [[row["start_ms"], row["end_ms"]] for row in heard.speech.to_pylist()]
        kept = json.dumps({"speech": speech, "facts": heard.facts}, ensure_ascii=False)
        path = self._path(audio_sha256, recipe, language)
        write_parquet(heard.segments.replace_schema_metadata({_KEPT: kept.encode()}), path)

    def _path(self, audio_sha256: str, recipe: Recipe, language: str | None) -> Path:
        key = fingerprint({"audio": audio_sha256, "recipe": dict(recipe), "language": language})
        return self._folder / f"{key}.parquet"
