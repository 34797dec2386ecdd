"""What an audio file says of itself: title, date, language and chapters, out of ID3, MP4 and Vorbis tags.

A fallback for what the notes leave out. Tags are a courtesy: damaged ones count as none.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from librarian_pipeline.archive.plain_text import one_line
from librarian_pipeline.archive.timecodes import MAX_MS, MS_PER_SECOND, parse_timecode
from librarian_pipeline.text.languages import UNDETERMINED, detect_language, parse_language

# ID3 writes this where a chapter is given as bytes of the file rather than as a time.
_NO_TIME = 0xFFFFFFFF
_VORBIS_CHAPTER = re.compile(r"chapter([0-9]{3,})")


@dataclass(frozen=True, order=True)
class Chapter:
    start_ms: int
    title: str
    """empty where it has none"""


@dataclass(frozen=True)
class AudioTags:
    """Each None or empty where the file doesn't say."""

    title: str | None = None
    published_at: str | None = None
    """ISO 8601 date; a bare year is none"""
    language: str | None = None
    """ISO 639-1 code"""
    chapters: tuple[Chapter, ...] = ()
    """sorted by start, in milliseconds"""


def read_tags(path: Path) -> AudioTags:
    """The tags of the file at `path`; empty where it has none, they are damaged, or the file can't be read."""
    try:
        with path.open("rb") as file:  # a name such as `Ep: 5.mp3` is no URL this way
            return _read(file)
    except Exception:  # mutagen raises whatever its parsers meet in damaged files, not only errors of its own
        return AudioTags()


def chapter_sections(path: Path, episode_id: str) -> list[dict[str, Any]]:
    """The embedded chapters as rows of `schemas.NOTES`, each a section without text."""
    tags = read_tags(path)
    language = tags.language or detect_language("\n".join(chapter.title for chapter in tags.chapters))
    return [
        {
            "episode_id": episode_id,
            "section_idx": index,
            "heading": chapter.title or None,
            "start_ms": chapter.start_ms,
            "text": "",
            "language": language,
        }
        for index, chapter in enumerate(tags.chapters)
    ]


def _read(file: IO[bytes]) -> AudioTags:
    import mutagen
    from mutagen.id3 import ID3
    from mutagen.mp4 import MP4

    is_id3 = file.read(3) == b"ID3"
    file.seek(0)
    if is_id3:  # not by way of the audio after the tag, which may be damaged
        return _from_id3(ID3(file))  # type: ignore[no-untyped-call]
    found = mutagen.File(file)
    if found is None or found.tags is None:
        return AudioTags()
    if isinstance(found, MP4):
        return _from_mp4(found)
    return _from_id3(found.tags) if isinstance(found.tags, ID3) else _from_vorbis(found.tags)


def _from_id3(tags: Any) -> AudioTags:
    """ID3 of any version: mutagen turns 2.2 and 2.3 into 2.4."""
    listed = {child for table in tags.getall("CTOC") for child in table.child_element_ids}
    frames = [frame for frame in tags.getall("CHAP") if not listed or frame.element_id in listed]
    chapters = [
        (frame.start_time, _first(_id3_texts(frame.sub_frames, "TIT2"))) for frame in frames if frame.start_time != _NO_TIME
    ]
    dates = _id3_texts(tags, "TDRL", "TDRC", "TDOR")  # released, recorded, first released
    return _tags(_first(_id3_texts(tags, "TIT2")), dates, _first(_id3_texts(tags, "TLAN")), chapters)


def _id3_texts(tags: Any, *names: str) -> list[Any]:
    return [text for name in names for frame in tags.getall(name) for text in frame.text]


def _from_mp4(file: Any) -> AudioTags:
    chapters = [(round(chapter.start * MS_PER_SECOND), chapter.title) for chapter in file.chapters or ()]
    return _tags(_first(file.tags.get("\xa9nam")), file.tags.get("\xa9day") or (), None, chapters)


def _from_vorbis(tags: Any) -> AudioTags:
    """Vorbis comments, whose names don't tell case, as in Ogg, Opus and FLAC."""
    values = {str(name).lower(): tags[name] for name in tags.keys()}  # noqa: SIM118 (without keys() they are pairs)
    chapters = []
    for name, found in values.items():
        if match := _VORBIS_CHAPTER.fullmatch(name):
            try:
                chapters.append((parse_timecode(str(found[0]).strip()), _first(values.get(f"{match[0]}name"))))
            except ValueError:
                continue
    return _tags(_first(values.get("title")), values.get("date") or (), _first(values.get("language")), chapters)


def _tags(title: Any, dates: Iterable[Any], language: Any, chapters: Iterable[tuple[int, Any]]) -> AudioTags:
    return AudioTags(
        title=_text(title) or None,
        published_at=next((date for date in map(_iso_date, dates) if date), None),
        language=_language(language),
        chapters=tuple(sorted({Chapter(start, _text(name)) for start, name in chapters if 0 <= start <= MAX_MS})),
    )


def _first(values: Any) -> Any:
    return next(iter(values or ()), None)


def _text(value: Any) -> str:
    return one_line(str(value)) if value is not None else ""


def _iso_date(value: Any) -> str | None:
    try:
        return datetime.fromisoformat(str(value).strip()).date().isoformat()
    except ValueError:
        return None


def _language(value: Any) -> str | None:
    try:
        code = parse_language(_text(value)) if value is not None else None
    except ValueError:
        return None
    return None if code == UNDETERMINED else code
