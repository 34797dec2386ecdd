"""Speech to text: `transcripts`."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from librarian_pipeline.derivation.step import Output, Sample, Step
from librarian_pipeline.lineage.recipes import transcript_source
from librarian_pipeline.speech.transcribe import Transcript
from librarian_pipeline.speech.transcript import published_transcript, transcribe_file
from librarian_pipeline.speech.transcript_cache import Heard, TranscriptCache
from librarian_pipeline.speech.weights import whisper_digest
from librarian_pipeline.storage.schemas import AUDIO, SPEECH_SPANS, TRANSCRIPTS


def transcripts(step: Step) -> Output:
    """Timed segments of what is said, by Whisper from the audio or from a published transcript."""
    source = transcript_source(step.files, step.settings)
    if source == "audio" and step.files.audio is not None:
        return _from_audio(step, step.files.audio)
    if source == "published" and step.files.published is not None:
        return _from_published(step, step.files.published)
    return _output(TRANSCRIPTS.empty_table(), SPEECH_SPANS.empty_table(), {"source": source})


def _from_audio(step: Step, path: Path) -> Output:
    cache = TranscriptCache(step.warehouse.cache_dir / "transcripts")
    digest = step.workspace.digest(path)
    heard = cache.get(digest, step.recipe, step.declared_language, step.partition) if step.reuse else None
    reused = heard is not None
    if heard is None:
        heard = _transcribed(step, path)
        if step.workspace.digest(path) == digest:
            cache.put(digest, step.recipe, step.declared_language, heard)
    return _output(heard.segments, heard.speech, {**heard.facts, "reused": reused})


def _transcribed(step: Step, path: Path) -> Heard:
    found = transcribe_file(
        path,
        step.partition,
        step.declared_language,
        step.settings,
        lambda done, total: step.report(done, total, "s of audio"),
    )
    model = step.settings.whisper.model
    facts = {"source": "audio", "model": model, "digest": whisper_digest(model), **_facts(found.transcript)}
    return Heard(found.segments, found.speech, facts)


def _from_published(step: Step, path: Path) -> Output:
    table, counts = published_transcript(
        path,
        step.partition,
        step.declared_language,
        step.read("audio", AUDIO),
        step.settings.checks.max_edition_gap_s,
    )
    facts = {"source": "published", **{f"cues_{name}": n for name, n in counts.items()}}
    return _output(table, SPEECH_SPANS.empty_table(), facts)


def _output(table: pa.Table, speech: pa.Table, facts: Mapping[str, Any]) -> Output:
    sample = Sample(table.slice(0, 5).to_pylist(), ["start_ms", "end_ms", "speaker", "text"])
    return Output(table, beside={"speech_spans": speech}, facts={**facts, "sample": sample})


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
