"""Speech to text: `transcripts`."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from librarian_pipeline.checks import TRANSCRIPT_CHECKS, transcript_outcomes
from librarian_pipeline.defs.declaration import Result, derived
from librarian_pipeline.defs.metadata import rows_as_markdown
from librarian_pipeline.defs.step import Step
from librarian_pipeline.lineage.recipes import transcript_source
from librarian_pipeline.speech.transcribe import Transcript
from librarian_pipeline.speech.transcript import published_transcript, transcribe_file
from librarian_pipeline.speech.weights import whisper_digest
from librarian_pipeline.storage.schemas import AUDIO, SPEECH_SPANS, TRANSCRIPTS


@derived(TRANSCRIPTS, "whisper", checks=TRANSCRIPT_CHECKS)
def transcripts(step: Step) -> Result:
    """Timed segments of what is said, by Whisper from the audio or from a published transcript."""
    source = transcript_source(step.files, step.settings)
    if source == "audio" and step.files.audio is not None:
        return _from_audio(step, step.files.audio)
    if source == "published" and step.files.published is not None:
        return _from_published(step, step.files.published)
    return _stored(step, TRANSCRIPTS.empty_table(), SPEECH_SPANS.empty_table(), {"source": source})


def _from_audio(step: Step, path: Path) -> Result:
    found = transcribe_file(
        path,
        step.partition,
        step.declared_language,
        step.settings,
        lambda done, total: step.report(done, total, "s of audio"),
    )
    model = step.settings.whisper.model
    facts = {"source": "audio", "model": model, "digest": whisper_digest(model), **_facts(found.transcript)}
    return _stored(step, found.segments, found.speech, facts)


def _from_published(step: Step, path: Path) -> Result:
    table, counts = published_transcript(
        path,
        step.partition,
        step.declared_language,
        step.read("audio", AUDIO),
        step.settings.checks.max_edition_gap_s,
    )
    facts = {"source": "published", **{f"cues_{name}": n for name, n in counts.items()}}
    return _stored(step, table, SPEECH_SPANS.empty_table(), facts)


def _stored(step: Step, table: pa.Table, speech: pa.Table, metadata: dict[str, Any]) -> Result:
    sample = rows_as_markdown(table.slice(0, 5).to_pylist(), ["start_ms", "end_ms", "speaker", "text"])
    spans = [(row["start_ms"], row["end_ms"]) for row in speech.to_pylist()]
    audio_row = next(iter(step.read("audio", AUDIO).to_pylist()), None)
    outcomes = transcript_outcomes(table.to_pylist(), spans, audio_row, step.settings.checks)
    return step.store(table, beside={"speech_spans": speech}, metadata={**metadata, "sample": sample}, outcomes=outcomes)


def _facts(transcript: Transcript) -> dict[str, Any]:
    """What is worth a look in the UI, in seconds and counts."""
    covered = transcript.coverage
    spoken = transcript.language
    flags = Counter(flag for row in transcript.rows for flag in row["flags"])
    return {
        "language": spoken.code if spoken else "none: no speech is heard",
        "language source": spoken.source if spoken else "none",
        **({"language probability": spoken.probability} if spoken and spoken.probability is not None else {}),
        **({"language votes": [list(vote) for vote in spoken.votes]} if spoken and spoken.votes else {}),
        "speech, s": covered.speech_ms / 1_000,
        "speech covered": covered.share,
        "uncovered speech, ms": [list(span) for span in covered.uncovered],
        "flags": dict(sorted(flags.items())),
        "excluded segments": sum(row["excluded"] for row in transcript.rows),
        "segments dropped after the end": transcript.dropped_segments,
        "windows decoded twice": transcript.windows_again,
        "windows where the second pass won": transcript.windows_won,
    }
