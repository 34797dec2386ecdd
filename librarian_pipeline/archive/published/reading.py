"""A file into rows. The content decides the format, not the file's suffix."""

import codecs
import contextlib
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from librarian_pipeline.archive.plain_text import without_control
from librarian_pipeline.archive.published.captions import srt_cues, vtt_cues
from librarian_pipeline.archive.published.cleaning import clean
from librarian_pipeline.archive.published.cues import Cue, Rejected
from librarian_pipeline.archive.published.podcast_json import json_cues, load_document, named_language
from librarian_pipeline.errors import SourceError
from librarian_pipeline.text.languages import detect_language

Format = Literal["vtt", "srt", "json"]

_EXPECTED = {
    "vtt": "no cue with a time such as `00:01.000 --> 00:04.000` and a text",
    "srt": "no cue with a time such as `00:00:01,000 --> 00:00:04,000` and a text",
    "json": 'no entry of "segments" with a "startTime" in seconds and a "body"',
}


@dataclass(frozen=True)
class PublishedTranscript:
    """A transcript as rows of `schemas.TRANSCRIPTS`, sorted by start."""

    rows: list[dict[str, Any]]
    counts: dict[str, int]
    """What became of the cues: `read` = `kept` + all `merged_*` + all `rejected_*`. Each voice of a WebVTT cue counts."""
    format: Format

    @property
    def n_rejected(self) -> int:
        """cues left out, because they have no text, no speech, or no start that makes sense; and text outside of cues"""
        return sum(n for name, n in self.counts.items() if name.startswith("rejected_"))


def read_published(path: Path, episode_id: str, language: str | None) -> PublishedTranscript:
    """The published transcript at `path`. Its language is the given one, else the one that JSON names, else detected.

    No rows where its cues say that nobody speaks. Raises `SourceError` if it has no usable cue.
    """
    text = without_control(unicodedata.normalize("NFC", _decode(path.read_bytes())))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    source = _detect_format(text)
    if source == "json":
        try:
            document = load_document(text)
        except ValueError as error:
            raise SourceError(f"{path.name} is not valid JSON ({error})", "export it again, as UTF-8") from error
        language = language or named_language(document)
        found = list(json_cues(document))
    else:
        found = list(vtt_cues(text) if source == "vtt" else srt_cues(text))
    cues, counts = clean(found)
    if not cues and Rejected.NON_SPEECH not in found:
        raise SourceError(
            f"{path.name}: {_EXPECTED[source]}", "put a whole WebVTT, SRT or Podcasting 2.0 JSON transcript there"
        )
    language = language or detect_language("\n".join(cue.text for cue in cues))
    rows = [_row(cue, episode_id, index, language, source) for index, cue in enumerate(cues)]
    return PublishedTranscript(rows, counts, source)


def _decode(content: bytes) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    with contextlib.suppress(UnicodeDecodeError):
        return content.decode("utf-8-sig")
    # Line by line: one line that was pasted in from elsewhere must not spoil the others.
    return "".join(_decode_line(line) for line in content.splitlines(keepends=True))


def _decode_line(line: bytes) -> str:
    # Old files call themselves Latin-1 and mean its Windows variant, which leaves five bytes undefined.
    for encoding in ("utf-8-sig", "cp1252"):
        with contextlib.suppress(UnicodeDecodeError):
            return line.decode(encoding)
    return line.decode("latin-1")


def _detect_format(text: str) -> Format:
    head = text.lstrip()
    if head.startswith("{"):
        return "json"
    return "vtt" if head.startswith("WEBVTT") else "srt"


def _row(cue: Cue, episode_id: str, index: int, language: str, source: Format) -> dict[str, Any]:
    words = [{"word": w.text, "start_ms": w.start_ms, "end_ms": w.end_ms, "probability": None} for w in cue.words]
    return {
        "episode_id": episode_id,
        "segment_idx": index,
        "start_ms": cue.start_ms,
        "end_ms": cue.end_ms,
        "text": cue.text,
        "language": language,
        "speaker": cue.speaker,
        "source": source,
        "avg_logprob": None,
        "no_speech_prob": None,
        "compression_ratio": None,
        "window_id": None,
        "words": words or None,
        "flags": [str(flag) for flag in cue.flags],
        "excluded": False,
    }
