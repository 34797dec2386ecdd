"""An episode's notes file, written from what its feed says: front matter, the description as plain text, the chapters."""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import unescape
from typing import Any

from librarian_pipeline.archive.feeds.rss import Chapter, Item
from librarian_pipeline.archive.timecodes import MAX_MS, MS_PER_SECOND, format_timecode
from librarian_pipeline.errors import SourceError
from librarian_pipeline.text.languages import parse_language

_PARAGRAPHS = frozenset({"p", "div", "ul", "ol", "blockquote", "table", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "hr"})
_LINES = frozenset({"br", "tr"})
# Each of these looks no further than the next sign of a tag: whatever the text, the time is in proportion to its length.
_TAG = re.compile(r"<(?:(?P<end>/?)(?P<tag>[a-zA-Z][a-zA-Z0-9]*)(?P<rest>[^<>]*)|[!?][^<>]*)>")
_HREF = re.compile(r"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_HIDDEN_START = re.compile(r"<(?:!--|(?P<tag>script|style)\b)", re.IGNORECASE)
_HIDDEN_ENDS = {
    "": re.compile("-->"),
    "script": re.compile(r"</script\b[^<>]*>", re.IGNORECASE),
    "style": re.compile(r"</style\b[^<>]*>", re.IGNORECASE),
}
_HAS_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
# What Markdown would take for markup: inside a line, and at its start.
_INLINE_MARKUP = re.compile(r"[\\`*]|~(?=~)|(?<![^\W_])_|_(?![^\W_])|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<=\])[(:\[]")
_BLOCK_MARKUP = re.compile(r"(?:#{1,6}|[-+])(?=\s|$)|>|[-=:|][-=:|\s]*$|[0-9]{1,9}[.)](?=\s|$)")


def write_notes(item: Item, chapters: Sequence[Chapter]) -> str:
    """The text of a notes file. Equal input gives equal text."""
    head = ["---", *_front_matter(item), "---"]
    body = [description_to_text(item.description), *(_section(chapter) for chapter in chapters)]
    return "\n\n".join(["\n".join(head), *filter(None, body)]) + "\n"


def _front_matter(item: Item) -> Iterable[str]:
    if title := _one_line(item.title):
        yield f"title: {json.dumps(title, ensure_ascii=False)}"
    if item.published:
        yield f"date: {item.published.date().isoformat()}"
    if language := _language(item.language):
        yield f"language: {language}"


def _language(name: str | None) -> str | None:
    # A name that isn't known is left out rather than written where reading the notes would fail on it.
    try:
        return parse_language(name) if name else None
    except ValueError:
        return None


def _section(chapter: Chapter) -> str:
    heading = f"## [{format_timecode(chapter.start_ms)}] {_escaped(_one_line(chapter.title))}".rstrip()
    return f"{heading}\n\n{_escaped(_one_line(chapter.url))}" if chapter.url else heading


def description_to_text(description: str) -> str:
    """A description, HTML or plain, as Markdown that says the same words and has no markup but lists.

    A link is its text with the address in parentheses.
    """
    # Plain text has line breaks of its own; entities are often left in it, so it is read as HTML, too.
    html = description if _HAS_TAG.search(description) else "<br>".join(description.splitlines())
    text = _html_to_text(html)
    lines = [_escaped_line(" ".join(line.split())) for line in _printable(text).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _html_to_text(html: str) -> str:
    """The words of HTML, with line breaks where a browser would have them.

    Not with `html.parser`, which takes minutes over some tens of kilobytes of tags that never end.
    """
    visible = _without_hidden(html)
    pieces: list[str] = []
    links: list[tuple[str, int]] = []
    position = 0
    for match in _TAG.finditer(visible):
        pieces.append(_words(visible[position : match.start()]))
        position = match.end()
        is_end, tag = bool(match["end"]), (match["tag"] or "").lower()
        if tag == "a" and not is_end:
            links.append((_address(match["rest"]), len(pieces)))
        elif tag == "a" and links:
            pieces.append(_link_end(pieces, *links.pop()))
        else:
            pieces.append(_break(tag, is_end))
    pieces.append(_words(visible[position:]))
    return re.sub(rf"{_ITEM}\s+", _ITEM, "".join(pieces))


def _without_hidden(html: str) -> str:
    """Without comments, scripts and style sheets. One that has no end goes up to the end of the text."""
    kept, position = [], 0
    while start := _HIDDEN_START.search(html, position):
        kept.append(html[position : start.start()])
        end = _HIDDEN_ENDS[(start["tag"] or "").lower()].search(html, start.end())
        position = end.end() if end else len(html)
    return "".join([*kept, html[position:]])


def _words(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(html))


def _break(tag: str, is_end: bool) -> str:
    if tag in _PARAGRAPHS:
        return "\n\n"
    if tag == "li" and not is_end:
        return f"\n{_ITEM}"
    return "\n" if tag in _LINES else ""


def _address(attributes: str) -> str:
    match = _HREF.search(attributes)
    return unescape(match[1] or match[2] or match[3] or "").strip() if match else ""


def _link_end(pieces: list[str], url: str, start: int) -> str:
    """What follows the words of a link, which begin at `start`."""
    words = "".join(pieces[start:]).strip()
    if not url.startswith(("http://", "https://")) or url.rstrip("/") == words.rstrip("/"):
        return ""
    return f" ({url})" if words else url


# Stands for the dash of a list item, until dashes of the text itself are escaped. Not printable, so never in the text.
_ITEM = "\x00"


def _escaped_line(line: str) -> str:
    words = _escaped(line.replace(_ITEM, "").strip())
    return f"- {words}" if words and line.startswith(_ITEM) else words


def _escaped(text: str) -> str:
    """`text` so that Markdown takes it for itself."""
    escaped = _INLINE_MARKUP.sub(lambda match: f"\\{match[0]}", text)
    match = _BLOCK_MARKUP.match(escaped)
    if match is None:
        return escaped
    # In `3. ` it is the dot that counts.
    at = match.end() - 1 if match[0][0].isdigit() else 0
    return f"{escaped[:at]}\\{escaped[at:]}"


def _one_line(text: str) -> str:
    return " ".join(_printable(text).replace(_ITEM, "").split())


def _printable(text: str) -> str:
    """Without what neither YAML nor a terminal takes, and with the one mark of our own."""
    return "".join(
        char
        for char in text
        if char in f"\n\t{_ITEM}" or (unicodedata.category(char) not in ("Cc", "Cs") and char not in "\ufffe\uffff")
    )


def parse_chapters(content: bytes) -> tuple[Chapter, ...]:
    """The chapters of a Podcasting 2.0 chapters file, by time. Entries without a usable start are left out.

    Raises `SourceError` where it is not such a file.
    """
    try:
        document = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SourceError(f"not valid JSON ({error})", "tell whoever publishes the feed") from error
    entries = document.get("chapters") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise SourceError('JSON without a list of "chapters"', "tell whoever publishes the feed")
    found = (_chapter(entry) for entry in entries if isinstance(entry, dict) and entry.get("toc") is not False)
    return tuple(sorted(filter(None, found), key=lambda chapter: chapter.start_ms))


def _chapter(entry: dict[str, Any]) -> Chapter | None:
    start_s, title, url = entry.get("startTime"), entry.get("title"), entry.get("url")
    if isinstance(start_s, bool) or not isinstance(start_s, int | float) or not 0 <= start_s <= MAX_MS / MS_PER_SECOND:
        return None
    words = " ".join(title.split()) if isinstance(title, str) else ""
    return Chapter(round(start_s * MS_PER_SECOND), words, url if isinstance(url, str) and url else None)
