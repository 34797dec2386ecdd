"""What the archive's files hold: `audio`, `notes`, `episodes`."""

from typing import Any

import pyarrow as pa

from librarian_pipeline.archive.catalogue import build_catalogue
from librarian_pipeline.archive.layout import EpisodeFiles
from librarian_pipeline.archive.notes import read_notes
from librarian_pipeline.archive.tags import chapter_sections
from librarian_pipeline.checks import find
from librarian_pipeline.derivation.step import Output, Sample, Step
from librarian_pipeline.speech.audio_facts import DEFERRED, audio_row
from librarian_pipeline.storage.schemas import AUDIO, CHUNKS, NOTES, SPEECH_SPANS, TOKEN_COUNTS, TRANSCRIPTS


def audio(step: Step) -> Output:
    """Each episode's audio file: digest, codec, length as stated and as decoded, and what is wrong with it."""
    path, home = step.files.audio, step.workspace.home
    rows = [audio_row(path, step.partition, home, step.settings.audio)] if path else []
    facts = {"status": rows[0]["status"], "duration_ms": rows[0].get("duration_decoded_ms")} if rows else {}
    return Output(pa.Table.from_pylist(rows, schema=AUDIO), facts=facts, deferred=facts.get("status") == DEFERRED)


def notes(step: Step) -> Output:
    """The sections of each episode's notes, with their times; without any, the audio's chapters too."""
    rows = _sections(step.files)
    sample = Sample(rows[:5], ["heading", "start_ms", "text"])
    return Output(pa.Table.from_pylist(rows, schema=NOTES), facts={"sample": sample})


def _sections(files: EpisodeFiles) -> list[dict[str, Any]]:
    """Those of the notes; and after them the audio's chapters, where no section of the notes has a time."""
    written = read_notes(files.notes, files.episode_id) if files.notes is not None else []
    if files.audio is None or any(section["start_ms"] is not None for section in written):
        return written
    chapters = chapter_sections(files.audio, files.episode_id)
    return [*written, *({**row, "section_idx": index} for index, row in enumerate(chapters, start=len(written)))]


def episodes(step: Step) -> Output:
    """The catalogue: title, date, language, length, status and findings of each episode."""
    audio_table, transcripts = step.read("audio", AUDIO), step.read("transcripts", TRANSCRIPTS)
    speech, tokens = step.read("speech_spans", SPEECH_SPANS), step.read("embeddings", TOKEN_COUNTS)
    table = build_catalogue(
        step.discovery.episodes.values(),
        audio_table,
        transcripts,
        step.read("chunks", CHUNKS),
        step.workspace.source_failures(step.episodes, step.discovery),
        find(audio_table, transcripts, speech, tokens, step.settings.checks),
    )
    columns = ["episode_id", "title", "language", "status", "n_chunks_notes", "n_chunks_transcript"]
    return Output(table, facts={"catalogue": Sample(table.to_pylist(), columns)})
