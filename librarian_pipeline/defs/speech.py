"""Speech to text: `transcripts`."""

import pyarrow as pa

from librarian_pipeline.defs.declaration import Result, derived
from librarian_pipeline.defs.metadata import rows_as_markdown
from librarian_pipeline.defs.step import Step
from librarian_pipeline.lineage.recipes import transcript_source
from librarian_pipeline.speech.transcript import published_transcript, transcribe_file
from librarian_pipeline.speech.weights import whisper_digest
from librarian_pipeline.storage.schemas import AUDIO, TRANSCRIPTS


@derived(TRANSCRIPTS, "whisper")
def transcripts(step: Step) -> Result:
    """Timed segments of what is said, by Whisper from the audio or from a published transcript."""
    source = transcript_source(step.files, step.settings)
    table, counts = _published(step) if source == "published" else (_transcript(step, source), {})
    sample = rows_as_markdown(table.slice(0, 5).to_pylist(), ["start_ms", "end_ms", "speaker", "text"])
    return step.store(table, metadata={"source": source, **_model(step, source), **counts, "sample": sample})


def _model(step: Step, source: str) -> dict[str, str]:
    if source != "audio":
        return {}
    model = step.settings.whisper.model
    return {"model": model, "digest": whisper_digest(model)}


def _transcript(step: Step, source: str) -> pa.Table:
    language = step.declared_language
    if source == "audio" and step.files.audio is not None:
        return transcribe_file(
            step.files.audio,
            step.partition,
            language,
            step.settings.whisper,
            step.settings.audio,
            lambda done, total: step.report(done, total, "s of audio"),
        )
    return TRANSCRIPTS.empty_table()


def _published(step: Step) -> tuple[pa.Table, dict[str, int]]:
    """The published transcript, and what became of its cues."""
    assert step.files.published is not None
    table, counts = published_transcript(
        step.files.published,
        step.partition,
        step.declared_language,
        step.read("audio", AUDIO),
        step.settings.checks.max_edition_gap_s,
    )
    return table, {f"cues_{name}": n for name, n in counts.items()}
