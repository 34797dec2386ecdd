"""A passage, traced to the segments or the section that it was cut from, and to the files that these come from."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from librarian_pipeline.archive.notes import read_notes
from librarian_pipeline.chunking.passages import section_parts
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.retrieval.citations import cite
from librarian_pipeline.retrieval.modes import passages_of
from librarian_pipeline.storage import schemas
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.tracing.observing import Observed, holds
from librarian_pipeline.workspace import ABSENT

Row = Mapping[str, Any]


@dataclass(frozen=True)
class AudioSource:
    """Where in which audio file a passage is heard; `end_ms` is None for a timed note. The rest is as in `audio`."""

    path: str
    sha256: str | None
    codec: str | None
    duration_ms: int | None
    status: str
    status_reason: str | None
    start_ms: int
    end_ms: int | None


@dataclass(frozen=True)
class FileSource:
    """The file that a text was read from, with its digest at that time; `path` is None where no such file is there now."""

    path: str | None
    sha256: str


@dataclass(frozen=True)
class SectionTrace:
    """The section of the notes, or the chapter in the audio's tags, that a passage is, or is a part of."""

    section_idx: int
    heading: str | None
    start_ms: int | None
    is_from_tags: bool
    source: FileSource


@dataclass(frozen=True)
class SegmentTrace:
    """A row of `transcripts`. `is_whole` is False where the passage holds only a part of it."""

    segment_idx: int
    start_ms: int
    end_ms: int
    text: str
    language: str
    speaker: str | None
    source: str
    window_id: int | None
    decoding_pass: int | None
    avg_logprob: float | None
    no_speech_prob: float | None
    compression_ratio: float | None
    flags: tuple[str, ...]
    is_whole: bool


@dataclass(frozen=True)
class VectorEntry:
    """A passage's vector. The counts are None for models that don't tell."""

    model: str
    digest: str
    dimensions: int
    n_tokens: int | None
    max_tokens: int | None


@dataclass(frozen=True)
class Indexed:
    """What the indexes hold of this version of the passage: its terms, counted with repeats, and its vector."""

    bm25_raw_terms: int | None
    bm25_stem_terms: int | None
    normalizer: str | None
    vector: VectorEntry | None


@dataclass(frozen=True)
class PassageTrace:
    """A row of `chunks` and where it comes from; times in milliseconds on the timeline of the audio.

    `segments` are those it was cut from, `left_out` those between them that are kept out of passages. `remarks` say what
    can't be told, and why.
    """

    chunk_id: str
    episode_id: str
    citation: str
    layer: str
    heading: str | None
    language: str
    n_words: int
    start_ms: int | None
    end_ms: int | None
    text: str
    text_sha256: str
    audio: AudioSource | None
    published: FileSource | None
    section: SectionTrace | None
    segments: tuple[SegmentTrace, ...]
    left_out: tuple[SegmentTrace, ...]
    indexed: Indexed
    remarks: tuple[str, ...]


def trace_passage(observed: Observed, row: Row) -> PassageTrace:
    """`row` is one of `chunks`."""
    episode = row["episode_id"]
    remarks: list[str] = []
    segments = _segments(observed, row, remarks) if row["layer"] == "transcript" else []
    section = _section(observed, row, remarks) if row["layer"] == "notes" else None
    [passage] = passages_of(pa.Table.from_pylist([row], schema=schemas.CHUNKS)).values()
    return PassageTrace(
        **{name: row[name] for name in ("chunk_id", "episode_id", "layer", "heading", "language", "n_words")},
        **{name: row[name] for name in ("start_ms", "end_ms", "text", "text_sha256")},
        citation=cite(passage, passage.start_ms).text,
        audio=_audio(observed, row, remarks),
        published=_published(observed, episode) if row["layer"] == "transcript" else None,
        section=section,
        segments=tuple(segment for segment, excluded in segments if not excluded),
        left_out=tuple(segment for segment, excluded in segments if excluded),
        indexed=_indexed(observed, row, remarks),
        remarks=tuple(remarks),
    )


def _used(observed: Observed, row: Row, asset: str, remarks: list[str]) -> Provenance | None:
    """The record of what the passage was cut from, if that is what is stored now."""
    chunks, item = Item("chunks", row["episode_id"]), Item(asset, row["episode_id"])
    record = observed.record(item)
    if holds(observed.record(chunks), item, record):
        return record
    remarks.append(f"{item} was derived anew since this passage was cut from it, and what it was cut from is gone")
    return None


def _segments(observed: Observed, row: Row, remarks: list[str]) -> list[tuple[SegmentTrace, bool]]:
    """The segments that the passage reaches over, and whether each was kept out of it."""
    if _used(observed, row, "transcripts", remarks) is None:
        return []
    segments = observed.rows("transcripts", row["episode_id"], schemas.TRANSCRIPTS)
    if row["start_ms"] is None:
        remarks.append("the published transcript is of another edition of the episode, so its times lead nowhere")
    return [
        (_segment(segment, row), segment["excluded"])
        for segment in segments
        if row["first_segment"] <= segment["segment_idx"] <= row["last_segment"] and _meets(segment, row)
    ]


def _meets(segment: Row, row: Row) -> bool:
    """Whether they meet in time: where speakers overlap, other passages' segments may be numbered between those of one."""
    untimed = row["start_ms"] is None
    return untimed or bool(segment["start_ms"] <= row["end_ms"] and segment["end_ms"] >= row["start_ms"])


def _segment(segment: Row, row: Row) -> SegmentTrace:
    taken = {name: segment[name] for name in SegmentTrace.__dataclass_fields__ if name not in ("flags", "is_whole")}
    untimed = row["start_ms"] is None
    is_whole = untimed or row["start_ms"] <= segment["start_ms"] <= segment["end_ms"] <= row["end_ms"]
    return SegmentTrace(**taken, flags=tuple(segment["flags"] or ()), is_whole=is_whole)


def _section(observed: Observed, row: Row, remarks: list[str]) -> SectionTrace | None:
    chunks, notes = observed.record(Item("chunks", row["episode_id"])), _used(observed, row, "notes", remarks)
    if notes is None or chunks is None:
        return None
    sections = observed.rows("notes", row["episode_id"], schemas.NOTES)
    parts = section_parts(sections, chunks.recipe["notes_max_words"])
    section, text = next(itertools.islice(parts, row["chunk_idx"], None), (None, None))
    if section is None or text != row["text"]:
        remarks.append("the notes are cut in another way now than this passage was, so its section can't be told")
        return None
    files = observed.files.get(row["episode_id"])
    from_tags = _is_from_tags(observed, section, notes)
    path = (files.audio if from_tags else files.notes) if files else None
    source = FileSource(_in_archive(path), notes.inputs["tags" if from_tags else "file"])
    return SectionTrace(section["section_idx"], section["heading"], section["start_ms"], from_tags, source)


def _is_from_tags(observed: Observed, section: Row, notes: Provenance) -> bool:
    """Chapters of the audio's tags stand after the sections of the notes; they have times, and no text."""
    if notes.inputs["file"] == ABSENT:
        return True
    if section["text"] or section["start_ms"] is None or "tags" not in notes.inputs:
        return False
    item = Item("notes", notes.partition)
    files = observed.files.get(str(notes.partition))
    unchanged = observed.world.inputs(item).get("file") == notes.inputs["file"]
    if files is None or files.notes is None or not unchanged:
        return False
    return bool(section["section_idx"] >= len(read_notes(files.notes, files.episode_id)))


def _audio(observed: Observed, row: Row, remarks: list[str]) -> AudioSource | None:
    """Where the passage is heard; None where it has no time, or its episode no audio."""
    item = Item("audio", row["episode_id"])
    rows = observed.rows("audio", row["episode_id"], schemas.AUDIO)
    if row["start_ms"] is None or not rows:
        return None
    transcripts = observed.record(Item("transcripts", row["episode_id"]))
    if row["layer"] == "transcript" and not holds(transcripts, item, observed.record(item)):
        remarks.append(f"{item} was derived anew since the transcript was: the times may not be those of this audio")
    [audio] = rows
    return AudioSource(
        path=audio["source_path"],
        sha256=audio["audio_sha256"],
        codec=audio["codec"],
        duration_ms=audio["duration_decoded_ms"],
        status=audio["status"],
        status_reason=audio["status_reason"],
        start_ms=row["start_ms"],
        end_ms=row["end_ms"],
    )


def _published(observed: Observed, episode: str) -> FileSource | None:
    record, files = observed.record(Item("transcripts", episode)), observed.files.get(episode)
    if record is None or "published" not in record.inputs:
        return None
    path = files.published if files else None
    return FileSource(_in_archive(path), record.inputs["published"])


def _in_archive(path: Path | None) -> str | None:
    return f"{path.parent.name}/{path.name}" if path else None


def _indexed(observed: Observed, row: Row, remarks: list[str]) -> Indexed:
    raw, stem = (_bm25_terms(observed, row, name, remarks) for name in ("bm25_raw", "bm25_stem"))
    [normalizer] = [row["normalizer"] for row in observed.rows("bm25_stem_corpus", None, schemas.BM25_CORPUS)] or [None]
    return Indexed(raw, stem, normalizer, _vector(observed, row, remarks))


def _bm25_terms(observed: Observed, row: Row, name: str, remarks: list[str]) -> int | None:
    chunks, index = Item("chunks", row["episode_id"]), Item(f"{name}_index")
    if not holds(observed.record(index), chunks, observed.record(chunks)):
        remarks.append(f"{index} doesn't hold this version of the passage")
        return None
    [document] = observed.rows(f"{name}_documents", None, schemas.BM25_DOCUMENTS, chunk_id=row["chunk_id"])
    return int(document["n_terms"])


def _vector(observed: Observed, row: Row, remarks: list[str]) -> VectorEntry | None:
    chunks, embeddings, index = (
        Item("chunks", row["episode_id"]),
        Item("embeddings", row["episode_id"]),
        Item("vector_index"),
    )
    embedded = observed.record(embeddings)
    if not (holds(observed.record(index), embeddings, embedded) and holds(embedded, chunks, observed.record(chunks))):
        remarks.append(f"{index} doesn't hold this version of the passage")
        return None
    [entry] = observed.rows("vector_index", None, schemas.TOKEN_COUNTS, chunk_id=row["chunk_id"])
    [model] = observed.rows("vector_index_model", None, schemas.VECTOR_INDEX_MODEL)
    return VectorEntry(model["model"], model["digest"], model["dimensions"], entry["n_tokens"], entry["max_tokens"])
