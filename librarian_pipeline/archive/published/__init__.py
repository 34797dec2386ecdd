"""Transcripts that came with an episode: WebVTT, SubRip (SRT), and Podcasting 2.0 JSON."""

from librarian_pipeline.archive.published.cues import Flag, ends_sentence
from librarian_pipeline.archive.published.edition import edition_gap_ms, is_other_edition
from librarian_pipeline.archive.published.reading import PublishedTranscript, read_published

__all__ = ["Flag", "PublishedTranscript", "edition_gap_ms", "ends_sentence", "is_other_edition", "read_published"]
