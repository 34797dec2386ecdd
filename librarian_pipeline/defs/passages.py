"""Addressable passages: `chunks`."""

from librarian_pipeline.chunking.passages import cut_episode
from librarian_pipeline.defs.declaration import Result, derived
from librarian_pipeline.defs.metadata import passages_as_markdown
from librarian_pipeline.defs.step import Step
from librarian_pipeline.storage.schemas import CHUNKS, NOTES, TRANSCRIPTS


@derived(CHUNKS)
def chunks(step: Step) -> Result:
    """Passages of about a minute from the transcript, and of a section from the notes: what is indexed, found and cited."""
    table = cut_episode(
        step.partition, step.read("transcripts", TRANSCRIPTS), step.read("notes", NOTES), step.settings.chunks
    )
    return step.store(table, metadata={"sample": passages_as_markdown(table.slice(0, 5))})
