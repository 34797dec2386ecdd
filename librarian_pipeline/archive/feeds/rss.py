"""Reads an RSS 2.0 feed: what it says, as it says it, and nothing that it doesn't.

Entities are never expanded and nothing is fetched: whatever a feed holds, parsing it costs time and memory in proportion to
its size.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from librarian_pipeline.archive.timecodes import parse_timecode
from librarian_pipeline.errors import UsageError

# As feeds declare them, without the scheme and the slash at the end, which vary.
_PREFIXES = {
    "backend.userland.com/rss2": "",
    "podcastindex.org/namespace/1.0": "podcast:",
    "github.com/podcastindex-org/podcast-namespace/blob/main/docs/1.0.md": "podcast:",
    "www.itunes.com/dtds/podcast-1.0.dtd": "itunes:",
    "purl.org/rss/1.0/modules/content": "content:",
    "purl.org/dc/elements/1.1": "dc:",
    "podlove.org/simple-chapters": "psc:",
    "www.w3.org/2005/atom": "atom:",
    "www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf:",
}
_OTHER_FEEDS = {"atom:feed": "an Atom feed", "rdf:RDF": "an RSS 1.0 feed", "html": "a web page"}
_MAX_NUMBER_DIGITS = 5

_Children = dict[str, list[Element]]


@dataclass(frozen=True)
class Enclosure:
    """A media file of an item. What the feed says of it may be wrong."""

    url: str
    media_type: str
    """lower case, without parameters; may be empty"""
    length: int | None
    """in bytes"""


@dataclass(frozen=True)
class TranscriptTag:
    """One of an item's `podcast:transcript` tags."""

    url: str
    media_type: str
    language: str | None
    rel: str


@dataclass(frozen=True)
class Chapter:
    """A chapter, with its start in milliseconds from the start of the episode."""

    start_ms: int
    title: str
    url: str | None


@dataclass(frozen=True)
class Item:
    """An item of a feed. Addresses are as they are written: relative ones are not resolved."""

    guid: str | None
    title: str
    published: datetime | None
    """with the feed's own time zone; UTC where it names none"""
    language: str | None
    """as written, of the item or else of the feed"""
    description: str
    """HTML or plain text: the longest that the item has"""
    link: str | None
    enclosures: tuple[Enclosure, ...]
    transcripts: tuple[TranscriptTag, ...]
    chapters_url: str | None
    chapters: tuple[Chapter, ...]
    """Podlove simple chapters, which stand in the feed itself"""
    season: int | None
    episode: int | None
    episode_type: str
    """`full`, `trailer` or `bonus`"""


@dataclass(frozen=True)
class Feed:
    """A podcast's feed, its items in the feed's order."""

    title: str
    link: str | None
    guid: str | None
    items: tuple[Item, ...]


def parse_feed(content: bytes, name: str) -> Feed:
    """The feed that `content` holds; `name` is what errors call it.

    Raises `UsageError` where it is not XML, not RSS 2.0, or defines entities.
    """
    root = _parse_xml(content, name)
    kind = _key(root)
    channel = next((child for child in root if _key(child) == "channel"), None)
    if kind != "rss" or channel is None:
        found = _OTHER_FEEDS.get(kind, f"XML that begins with <{kind}>")
        raise UsageError(f"{name} is {found}, not an RSS 2.0 feed", "look for the podcast's RSS address")
    children = _children(channel)
    language = _text(children, "language")
    return Feed(
        title=_text(children, "title") or "",
        link=_text(children, "link"),
        guid=_text(children, "podcast:guid"),
        items=tuple(_item(_children(item), language) for item in children.get("item", ())),
    )


def _parse_xml(content: bytes, name: str) -> Element:
    # What a template leaves before the declaration is no reason to refuse a feed.
    text = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    try:
        root: Element = fromstring(text)
    except DefusedXmlException as error:
        fix = "a podcast feed has no use for them; check where it comes from"
        raise UsageError(f"{name} defines XML entities, which are refused", fix) from error
    except (ParseError, LookupError, ValueError) as error:
        # Of an encoding that there isn't, or that XML can't have, Python says so in its own way.
        raise UsageError(f"{name} is not XML ({error})", "check that it is the address of an RSS feed") from error
    return root


def _key(element: Element) -> str:
    """The element's name with the prefix that its namespace usually has: `title`, `podcast:transcript`."""
    namespace, brace, local = str(element.tag).rpartition("}")
    if not brace:
        return local
    bare = namespace[1:].lower().removeprefix("http://").removeprefix("https://").rstrip("/")
    return _PREFIXES.get(bare, f"{bare}:") + local


def _children(element: Element) -> _Children:
    children: _Children = defaultdict(list)
    for child in element:
        children[_key(child)].append(child)
    return dict(children)


def _item(children: _Children, feed_language: str | None) -> Item:
    chapters_tag = next(iter(children.get("podcast:chapters", ())), None)
    return Item(
        guid=_text(children, "guid"),
        title=_text(children, "title") or _text(children, "itunes:title") or "",
        published=_date(_text(children, "pubDate") or _text(children, "dc:date")),
        language=_text(children, "language") or _text(children, "dc:language") or feed_language,
        description=_description(children),
        link=_text(children, "link"),
        enclosures=tuple(_enclosures(children.get("enclosure", ()))),
        transcripts=tuple(_transcripts(children.get("podcast:transcript", ()))),
        chapters_url=chapters_tag.get("url", "").strip() or None if chapters_tag is not None else None,
        chapters=tuple(_chapters(children.get("psc:chapters", ()))),
        season=_number(_text(children, "itunes:season") or _text(children, "podcast:season")),
        episode=_number(_text(children, "itunes:episode") or _text(children, "podcast:episode")),
        episode_type=(_text(children, "itunes:episodeType") or "full").lower(),
    )


def _text(children: _Children, key: str) -> str | None:
    """The first text of that name, on one line; None where there is none."""
    texts = (" ".join("".join(element.itertext()).split()) for element in children.get(key, ()))
    return next(filter(None, texts), None)


def _description(children: _Children) -> str:
    candidates = ["content:encoded", "description", "itunes:summary"]
    texts = ["".join(element.itertext()).strip() for key in candidates for element in children.get(key, ())]
    return max(texts, key=len, default="")


def _date(text: str | None) -> datetime | None:
    """RSS has dates as e-mail has them; some feeds have ISO 8601. None where it is neither."""
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            date = parse(text or "")
            return date if date.tzinfo else date.replace(tzinfo=UTC)
    return None


def _number(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > _MAX_NUMBER_DIGITS:
        return None
    return int(text)


def _enclosures(elements: Iterable[Element]) -> Iterable[Enclosure]:
    for element in elements:
        if url := element.get("url", "").strip():
            length = element.get("length", "").strip()
            is_length = length.isascii() and length.isdigit() and len(length) < 16
            yield Enclosure(url, _media_type(element), int(length) if is_length else None)


def _transcripts(elements: Iterable[Element]) -> Iterable[TranscriptTag]:
    for element in elements:
        if url := element.get("url", "").strip():
            language = element.get("language", "").strip() or None
            yield TranscriptTag(url, _media_type(element), language, element.get("rel", "").strip().lower())


def _media_type(element: Element) -> str:
    return element.get("type", "").partition(";")[0].strip().lower()


def _chapters(elements: Iterable[Element]) -> Iterable[Chapter]:
    for element in (child for parent in elements for child in parent if _key(child) == "psc:chapter"):
        # A start that can't be read makes no chapter: the text would be filed under a wrong time.
        with contextlib.suppress(ValueError):
            start_ms = parse_timecode(element.get("start", "").strip())
            title = " ".join(element.get("title", "").split())
            yield Chapter(start_ms, title, element.get("href", "").strip() or None)
