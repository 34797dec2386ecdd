"""Addressable passages: `chunks`."""

from librarian_pipeline.chunking.passages import cut_episode
from librarian_pipeline.derivation.step import Output, Sample, Step
from librarian_pipeline.retrieval.citations import cite
from librarian_pipeline.retrieval.modes import passages_of
from librarian_pipeline.storage.schemas import NOTES, TRANSCRIPTS


def chunks(step: Step) -> Output:
    """Passages of about a minute from the transcript, and of a section from the notes: what is indexed, found and cited."""
    table = cut_episode(
        step.partition, step.read("transcripts", TRANSCRIPTS), step.read("notes", NOTES), step.settings.chunks
    )
    shown = passages_of(table.slice(0, 5)).values()
    rows = [{"citation": cite(passage, passage.start_ms).text, "text": passage.text} for passage in shown]
    return Output(table, facts={"sample": Sample(rows, ["citation", "text"])})
