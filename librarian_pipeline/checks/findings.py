"""What the checks of all episodes did not pass, for the catalogue."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from librarian_pipeline.checks.audio import audio_outcomes
from librarian_pipeline.checks.passages import embedding_outcomes
from librarian_pipeline.checks.transcript import transcript_outcomes
from librarian_pipeline.settings import CheckSettings

Findings = dict[str, list[dict[str, str]]]
"""By episode; each as in `schemas.FINDING`."""


def find(
    audio: pa.Table, transcripts: pa.Table, speech: pa.Table, embeddings: pa.Table, settings: CheckSettings
) -> Findings:
    """The checks that did not pass, over whole tables."""
    audio_rows = {row["episode_id"]: row for row in audio.to_pylist()}
    segments, spans = _by_episode(transcripts.to_pylist()), _by_episode(speech.to_pylist())
    passages: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in embeddings.to_pylist():
        passages[row["chunk_id"].partition(":")[0]].append(row)
    findings: Findings = {}
    for episode in sorted({*audio_rows, *segments, *passages}):
        heard = [(span["start_ms"], span["end_ms"]) for span in spans.get(episode, ())]
        row = audio_rows.get(episode)
        outcomes = [
            *(audio_outcomes(row, settings) if row else []),
            *transcript_outcomes(segments.get(episode, []), heard, row, settings),
            *embedding_outcomes(passages.get(episode, ()), settings),
        ]
        findings[episode] = [
            {"check": outcome.check, "severity": str(outcome.severity), "message": outcome.message}
            for outcome in outcomes
            if not outcome.passed
        ]
    return findings


def _by_episode(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    grouped: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        grouped[row["episode_id"]].append(row)
    return grouped
