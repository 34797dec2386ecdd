"""When a word of a passage is said: the citation of a quote points at where the quote begins."""

from itertools import chain

from librarian_pipeline.answering.wording import find, words_of
from librarian_pipeline.chunking.passages import LONG_SEGMENT_MS, Segment, segments_of, split_long
from librarian_pipeline.retrieval.citations import Citation, cite
from librarian_pipeline.retrieval.modes import Passage
from librarian_pipeline.storage.schemas import TRANSCRIPTS
from librarian_pipeline.storage.tables import TableReader


def cite_word(tables: TableReader, passage: Passage, position: int) -> Citation:
    """The citation of the word at that place among `words_of` the passage's text, counted from 0.

    That of the word itself where the transcript times words, else of its segment; of the passage, where it has no segments.
    """
    if passage.start_ms is None or passage.first_segment is None or passage.last_segment is None:
        return cite(passage, passage.start_ms)
    transcript = tables.read_all("transcripts", [passage.episode_id], TRANSCRIPTS)
    inside = [segment for segment in segments_of(transcript) if passage.first_segment <= segment.idx <= passage.last_segment]
    # As passages are cut: pieces in the order in which they begin.
    pieces = sorted(chain.from_iterable(split_long(s, LONG_SEGMENT_MS) for s in inside), key=lambda piece: piece.start_ms)
    timed = [pair for piece in pieces for pair in _timed_words(piece)]
    # A passage may begin within a long segment.
    begins = find(words_of(passage.text), [word for word, _ in timed])
    if begins is None:
        return cite(passage, passage.start_ms)
    return cite(passage, max(timed[begins + position][1], passage.start_ms))


def _timed_words(piece: Segment) -> list[tuple[str, int]]:
    spoken = [(word, start_ms) for written, start_ms in piece.words for word in words_of(written)]
    words = words_of(piece.text)
    return spoken if [word for word, _ in spoken] == words else [(word, piece.start_ms) for word in words]
