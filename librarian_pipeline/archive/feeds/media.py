"""What a file is: by its first bytes, else by the names and types that a feed and a server give it, often wrongly."""

import codecs
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from librarian_pipeline.archive.feeds.rss import Enclosure, Item, TranscriptTag
from librarian_pipeline.archive.layout import AUDIO_SUFFIXES, TRANSCRIPT_SUFFIXES
from librarian_pipeline.text.languages import parse_language

HEAD_BYTES = 512

_VIDEO_SUFFIXES = frozenset({".mp4", ".webm", ".mkv", ".mov", ".m4v"})
_MP4_SUFFIXES = frozenset({".m4a", ".m4b", ".mp4", ".m4v", ".mov"})
_MATROSKA_SUFFIXES = frozenset({".webm", ".mka", ".mkv"})
_SUFFIX_OF_TYPE = {
    **{"audio/mpeg": ".mp3", "audio/mp3": ".mp3", "audio/mpeg3": ".mp3", "audio/x-mp3": ".mp3", "audio/x-mpeg": ".mp3"},
    **{"audio/mp4": ".m4a", "audio/x-m4a": ".m4a", "audio/m4a": ".m4a", "audio/x-m4b": ".m4b", "audio/aac": ".aac"},
    **{
        "audio/ogg": ".ogg",
        "application/ogg": ".ogg",
        "audio/opus": ".opus",
        "audio/flac": ".flac",
        "audio/x-flac": ".flac",
    },
    **{"audio/wav": ".wav", "audio/x-wav": ".wav", "audio/wave": ".wav", "audio/aiff": ".aiff", "audio/x-aiff": ".aiff"},
    **{"audio/x-ms-wma": ".wma", "audio/webm": ".webm", "video/mp4": ".mp4", "video/x-m4v": ".m4v"},
    **{"video/quicktime": ".mov", "video/webm": ".webm", "video/x-matroska": ".mkv"},
}
# In the order of preference: the first keeps the most, such as who speaks.
_TRANSCRIPT_PREFERENCE = (".json", ".vtt", ".srt")
_TRANSCRIPT_OF_TYPE = {
    **{"application/json": ".json", "text/json": ".json", "text/vtt": ".vtt", "application/vtt": ".vtt"},
    **{"application/srt": ".srt", "application/x-subrip": ".srt", "text/srt": ".srt", "application/x-srt": ".srt"},
}
_TEXT_STARTS = (b"<!doctype", b"<html", b"<head", b"<body", b"<?xml", b"<rss")


def choose_enclosure(item: Item) -> Enclosure | None:
    """The item's audio, else its video, else a file of unknown kind; None where there is only something else."""
    ranked = [(rank, enclosure) for enclosure in item.enclosures if (rank := _enclosure_rank(enclosure)) is not None]
    return min(ranked, key=lambda pair: pair[0], default=(0, None))[1]


def _enclosure_rank(enclosure: Enclosure) -> int | None:
    suffix = url_suffix(enclosure.url)
    kind = enclosure.media_type.partition("/")[0]
    if kind == "audio" or (suffix in AUDIO_SUFFIXES and suffix not in _VIDEO_SUFFIXES):
        return 0
    if kind == "video" or suffix in AUDIO_SUFFIXES:
        return 1
    return 2 if enclosure.media_type in ("", "application/octet-stream", "application/ogg") else None


def url_suffix(url: str) -> str:
    """The suffix of an address's path, lower case, with its dot; empty where it has none."""
    try:
        return PurePosixPath(urlsplit(url).path).suffix.lower()
    except ValueError:
        return ""  # Not an address: that is told where it is to be fetched.


def is_web_page(head: bytes) -> bool:
    """Whether a file begins like HTML or other markup, as the pages of errors and log-ins do."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(_TEXT_STARTS)


def audio_suffix(head: bytes, url: str, *media_types: str) -> str | None:
    """The suffix for a file of audio or video: by its content, else its address, else the types in their order.

    `head` is the file's first `HEAD_BYTES` bytes. None where nothing says that it is audio.
    """
    named = url_suffix(url)
    typed = next((_SUFFIX_OF_TYPE[media_type] for media_type in media_types if media_type in _SUFFIX_OF_TYPE), None)
    return _content_suffix(head, named, typed) or (named if named in AUDIO_SUFFIXES else typed)


def _content_suffix(head: bytes, named: str, typed: str | None) -> str | None:
    if head[4:8] == b"ftyp":
        return _within(_MP4_SUFFIXES, named, typed) or (".m4a" if head[8:11] in (b"M4A", b"M4B") else ".mp4")
    if head.startswith(b"\x1aE\xdf\xa3"):
        return _within(_MATROSKA_SUFFIXES, named, typed) or ".webm"
    if head.startswith(b"OggS"):
        return ".opus" if b"OpusHead" in head else _within(frozenset({".oga"}), named, typed) or ".ogg"
    if head.startswith(b"RIFF") and head[8:12] == b"WAVE":
        return ".wav"
    if head.startswith(b"FORM") and head[8:12] in (b"AIFF", b"AIFC"):
        return ".aiff"
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0 and not head.startswith(codecs.BOM_UTF16_LE):
        # The two bits of the layer are never 0 in MP3, and always 0 in AAC.
        return ".mp3" if head[1] & 0x06 else ".aac"
    starts = {b"ID3": ".mp3", b"fLaC": ".flac", b"0&\xb2u\x8ef\xcf\x11": ".wma"}
    return next((suffix for start, suffix in starts.items() if head.startswith(start)), None)


def _within(suffixes: frozenset[str], named: str, typed: str | None) -> str | None:
    return next((suffix for suffix in (named, typed) if suffix in suffixes), None)


def transcript_format(tag: TranscriptTag) -> str | None:
    """The suffix of a tag's format, by its type, else its address; None for those that have no times, such as HTML."""
    named = url_suffix(tag.url)
    return _TRANSCRIPT_OF_TYPE.get(tag.media_type) or (named if named in TRANSCRIPT_SUFFIXES else None)


def rank_transcripts(item: Item) -> list[TranscriptTag]:
    """The tags that can be used, the best first.

    Those in the episode's language come first, then those that don't say theirs; captions, which are cut to fit a screen,
    after transcripts; then the format decides, and at last the order in the feed.
    """
    usable = [(tag, suffix) for tag in item.transcripts if (suffix := transcript_format(tag))]
    usable.sort(
        key=lambda pair: (
            _language_rank(pair[0].language, item.language),
            pair[0].rel == "captions",
            _TRANSCRIPT_PREFERENCE.index(pair[1]),
        )
    )
    return [tag for tag, _ in usable]


def _language_rank(of_tag: str | None, of_item: str | None) -> int:
    if not of_tag or not of_item:
        return 1
    return 0 if _language(of_tag) == _language(of_item) else 2


def _language(name: str) -> str:
    try:
        return parse_language(name)
    except ValueError:
        return name.lower()
