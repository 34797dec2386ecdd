"""Reads an episode's notes: front matter, and Markdown cut into sections that know their time where the notes give one.

A section begins at each heading, and at each line or list item that starts with a time. Its text is plain: of links,
emphasis, images, lists, code and HTML, only the words are left.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from pathlib import Path
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from librarian_pipeline.archive.timecodes import MS_PER_SECOND, parse_timecode
from librarian_pipeline.errors import SourceError
from librarian_pipeline.text.languages import detect_language, parse_language

# Shorter sections take the language of the whole notes, because detection is not reliable on a few words.
MIN_WORDS_TO_DETECT = 20

_FENCE = "---"
_FENCE_ENDS = frozenset({"---", "..."})
# `key: value` that is all on one line, and what YAML would take for the start of something else than text.
_PAIR = re.compile(r"(?P<key>[A-Za-z_][\w -]*?)[ \t]*:[ \t]+(?P<value>\S.*)")
_YEAR_FIRST = re.compile(r"([0-9]{4})[-/.]([0-9]{1,2})[-/.]([0-9]{1,2})")
_YAML_ENDS = {'"': '"', "'": "'", "[": "]", "{": "}"}
_QUOTED_OR_BRACKETED = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|\[.*\]|\{.*\})(?:\s+\#.*)?""")
_NOT_TEXT_IN_YAML = re.compile(r"[*&!%@`]|- ")
_COLON_OR_NUMBER_SIGN = re.compile(r":(?:\s|\Z)|\s#[^\s]")
# YAML can escape one, and no file format can hold it.
_HALF_SURROGATE = re.compile(r"[\ud800-\udfff]")

_TIME = r"(?:[0-9]{1,4}:[0-5][0-9]|[0-9]{1,2}):[0-5][0-9](?:[.,][0-9]{3})?(?![0-9]|:[0-9])"
_RANGE = rf"{_TIME}(?:\s*[-–—]\s*{_TIME})?"
_MARKED = rf"(?:\[\s*{_RANGE}\s*\]|\(\s*{_RANGE}\s*\)|#t={_TIME})"
# `7:30 pm` is a time of the day.
_BARE = rf"{_RANGE}(?!\s*[ap]\.?m\b)"
_FIRST_TIME = re.compile(_TIME)
_TIME_AT_START = re.compile(rf"\A(?:{_MARKED}\s*[-–—:|·]?|{_BARE}\s*[-–—:|·]?(?:\s|\Z))", re.IGNORECASE)
_TIME_IN_HEADING = re.compile(rf"{_MARKED}|[-–—|·@]\s*{_BARE}\Z", re.IGNORECASE)
# Not `?t=` and `&t=`: those usually lead into somebody else's video.
_TIME_IN_LINK = re.compile(rf"#t=(?:npt:)?(?:(?P<time>{_TIME})|(?P<seconds>[0-9]{{1,7}})s?(?![0-9:hm]))")

_HTML_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_HTML_BREAK = re.compile(r"<(?:br|/?p|/?li|/?div|/?h[1-6]|/?tr|/?ul|/?ol)\b[^<>]*>", re.IGNORECASE)
_HTML_CELL = re.compile(r"</?t[dh]\b[^<>]*>", re.IGNORECASE)
_HTML_TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)

# What is nested deeper than this is lost; the preset's 20 is reached by ten levels of lists.
_MARKDOWN = MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"])


@dataclass(frozen=True)
class FrontMatter:
    """What the block at the head of the notes says about the episode."""

    title: str | None = None
    published_at: str | None = None
    """ISO 8601 date"""
    language: str | None = None
    """ISO 639-1 code"""
    guests: tuple[str, ...] = ()


@dataclass
class _Section:
    heading: str | None = None
    start_ms: int | None = None
    heading_has_time: bool = False
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class _Block:
    """A heading, paragraph, list item, table row or code block, as plain lines."""

    lines: tuple[str, ...]
    link_ms: int | None = None
    """the time, in milliseconds, that a link at the block's very start leads to"""
    is_heading: bool = False


def read_front_matter(path: Path) -> FrontMatter:
    """The front matter of the notes at `path`; empty if there is none.

    Raises `SourceError`, with the line, where it can't be read.
    """
    block, _ = _split(path)
    return _parse_front_matter(block, path)


def read_notes(path: Path, episode_id: str) -> list[dict[str, Any]]:
    """The sections of the notes at `path`, as rows of `schemas.NOTES`. Text before the first heading has no heading.

    Raises `SourceError` where the file is not UTF-8, or its front matter can't be read.
    """
    block, body = _split(path)
    language = _parse_front_matter(block, path).language
    sections = [section for section in _sections(_blocks(body)) if section.lines or section.heading_has_time]
    overall = language or detect_language("\n".join(section.text for section in sections))
    return [
        {
            "episode_id": episode_id,
            "section_idx": index,
            "heading": section.heading,
            "start_ms": section.start_ms,
            "text": section.text,
            "language": language or _detect(section, overall),
        }
        for index, section in enumerate(sections)
    ]


def _detect(section: _Section, overall: str) -> str:
    return detect_language(section.text) if len(section.text.split()) >= MIN_WORDS_TO_DETECT else overall


# Front matter


def _split(path: Path) -> tuple[str, str]:
    """The front matter and the Markdown after it."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{path.name}: line {number} is not UTF-8 text", "save it as UTF-8") from error
    lines = unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        return "", "\n".join(lines)
    end = next((index for index, line in enumerate(lines) if index and line.rstrip() in _FENCE_ENDS), None)
    if end is not None:
        return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :])
    message = f"{path.name}: the front matter that begins on line 1 has no end"
    raise SourceError(message, f"close it with a line that holds only {_FENCE}")


def _parse_front_matter(block: str, path: Path) -> FrontMatter:
    fields = _front_matter_fields(block, path)
    published_at = _one_value(fields.get("date"), "date", path)
    language = _one_value(fields.get("language"), "language", path)
    title = _one_value(fields.get("title"), "title", path)
    return FrontMatter(
        title=" ".join(title.value.split()) if title else None,
        published_at=_iso_date(published_at, path) if published_at else None,
        language=_language_code(language, path) if language else None,
        guests=_guests(fields.get("guests"), path),
    )


def _front_matter_fields(block: str, path: Path) -> dict[str, yaml.Node]:
    """The values by key, as YAML nodes: Python values would turn `no` into False and `12:34` into 754."""
    try:
        root = yaml.compose(_quoted(block), Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = _line(error.problem_mark) if error.problem_mark else 1
        raise SourceError(
            f"{path.name}: line {line} of the front matter is not valid YAML ({error.problem})",
            'write it as `key: value`, with a value that holds a colon in "quotes"',
        ) from error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # PyYAML passes on what `chr` says to an escape outside Unicode.
        raise SourceError(
            f"{path.name}: line 1 begins a front matter that is not valid YAML", "write it as `key: value`"
        ) from error
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        message = f"{path.name}: line {_line(root.start_mark)} of the front matter is not a `key: value` pair"
        raise SourceError(message, "write one pair a line, such as `title: The kettle`")
    return {str(key.value).lower(): value for key, value in root.value if isinstance(key, yaml.ScalarNode)}


def _quoted(block: str) -> str:
    """The block with quotes where people leave them out: `title: Part 2: The Sea`, `title: Episode #5`, `title: *Live*`.

    Lines stay where they are, so that errors name the right one.
    """
    lines = [line.replace("\t", "  ") for line in block.split("\n")]
    for index, line in enumerate(lines):
        match = _PAIR.fullmatch(line.rstrip())
        if match and _needs_quotes(match["value"]):
            value = match["value"].replace("'", "''")
            lines[index] = f"{match['key']}: '{value}'"
    return "\n".join(lines)


def _needs_quotes(value: str) -> bool:
    if value[0] in "\"'[{":
        # `"Tea" and "milk"` and `[Part 2] The sea` are text; what is never closed is a mistake to be told.
        return _YAML_ENDS[value[0]] in value[1:] and not _QUOTED_OR_BRACKETED.fullmatch(value)
    if value[0] in "|>":
        return False
    return bool(_NOT_TEXT_IN_YAML.match(value) or _COLON_OR_NUMBER_SIGN.search(value))


def _one_value(node: yaml.Node | None, key: str, path: Path) -> yaml.ScalarNode | None:
    """The node of a key that takes one value; `None` where that is left empty."""
    if node is None:
        return None
    if not isinstance(node, yaml.ScalarNode) or _HALF_SURROGATE.search(node.value):
        message = f"{path.name}: line {_line(node.start_mark)}: {key} is not a piece of text"
        raise SourceError(message, f"write it as `{key}: ...`")
    return node if node.value.strip() else None


def _iso_date(node: yaml.ScalarNode, path: Path) -> str:
    try:
        return _day(node.value.strip()).isoformat()
    except ValueError as error:
        message = f"{path.name}: line {_line(node.start_mark)}: {node.value!r} is not an ISO date"
        raise SourceError(message, "write it as year-month-day, such as 2024-03-05") from error


def _day(text: str) -> date:
    """The day of an ISO date, of one without leading zeros or with slashes, or of a date as in feeds.

    Raises `ValueError` for anything else: `3/4/2024` is a day in March to some and in April to others.
    """
    if parts := _YEAR_FIRST.fullmatch(text):
        return date(int(parts[1]), int(parts[2]), int(parts[3]))
    try:
        return datetime.fromisoformat(text).date()
    except ValueError:
        return parsedate_to_datetime(text).date()


def _language_code(node: yaml.ScalarNode, path: Path) -> str:
    try:
        return parse_language(node.value)
    except ValueError as error:
        message = f"{path.name}: line {_line(node.start_mark)}: {node.value!r} is not a known language"
        raise SourceError(message, "write a two-letter code such as en or cs") from error


def _guests(node: yaml.Node | None, path: Path) -> tuple[str, ...]:
    if isinstance(node, yaml.SequenceNode):
        entries = [_one_value(item, "guests", path) for item in node.value]
        names = [entry.value for entry in entries if entry]
    else:
        entry = _one_value(node, "guests", path)
        names = entry.value.split(",") if entry else []
    return tuple(name.strip() for name in names if name.strip())


def _line(mark: yaml.Mark) -> int:
    # Marks count from 0, and the fence is the file's first line.
    return int(mark.line) + 2


# Markdown to plain blocks


def _blocks(markdown: str) -> Iterator[_Block]:
    tokens = iter(_MARKDOWN.parse(markdown))
    for token in tokens:
        if token.type == "heading_open":
            yield _inline_block([next(tokens)], is_heading=token.level == 0)
        elif token.type == "tr_open":
            row = itertools.takewhile(lambda cell: cell.type != "tr_close", tokens)
            yield _inline_block([cell for cell in row if cell.type == "inline"])
        elif token.type == "inline":
            yield _inline_block([token], keep_lines=True)
        elif token.type in {"code_block", "fence"}:
            yield _Block(_clean_lines(token.content))
        elif token.type == "html_block":
            yield _Block(_clean_lines(_html_to_text(token.content)))


def _inline_block(tokens: list[Token], *, is_heading: bool = False, keep_lines: bool = False) -> _Block:
    children = [child for token in tokens for child in token.children or []]
    text = " ".join(_inline_text(token.children or []) for token in tokens)
    lines = _clean_lines(text) if keep_lines else _clean_lines(" ".join(text.split()))
    return _Block(lines, _leading_link_ms(children), is_heading)


def _inline_text(children: Iterable[Token]) -> str:
    text, after_address = "", False
    for token in children:
        is_address = token.type == "link_open" and token.markup == "autolink"
        piece = _inline_piece(token)
        # `see<https://example.org>now`: an address must not become part of the words beside it.
        if (is_address and text[-1:].isalnum()) or (after_address and piece[:1].isalnum()):
            text += " "
        after_address = token.type == "link_close" and token.markup == "autolink"
        text += piece
    return text


def _inline_piece(token: Token) -> str:
    if token.type in {"softbreak", "hardbreak"}:
        return "\n"
    if token.type == "image":
        return _inline_text(token.children or [])
    if token.type == "html_inline":
        return "\n" if _HTML_BREAK.fullmatch(token.content) else ""
    return token.content


def _leading_link_ms(children: list[Token]) -> int | None:
    """The time that a link before any other text leads to, in milliseconds: `[Slow start](ep.mp3#t=08:03)`."""
    first = next((child for child in children if child.type == "link_open" or child.content.strip()), None)
    if first is None or first.type != "link_open":
        return None
    match = _TIME_IN_LINK.search(str(first.attrs["href"]))
    if match is None:
        return None
    return parse_timecode(match["time"]) if match["time"] else int(match["seconds"]) * MS_PER_SECOND


def _html_to_text(html: str) -> str:
    return unescape(_HTML_TAG.sub("", _HTML_CELL.sub(" ", _HTML_BREAK.sub("\n", _HTML_HIDDEN.sub("", html)))))


def _clean_lines(text: str) -> tuple[str, ...]:
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return tuple(line for line in lines if line)


# Blocks to sections


def _sections(blocks: Iterable[_Block]) -> Iterator[_Section]:
    section = _Section()
    for block in blocks:
        if block.is_heading:
            yield section
            section = _headed_section(block)
            continue
        for start_ms, text in _timed_texts(block):
            if start_ms is not None:
                if section.lines:
                    yield section
                    section = _Section(section.heading)
                section.start_ms = start_ms
            if text:
                section.lines.append(text)
    yield section


def _headed_section(block: _Block) -> _Section:
    heading = " ".join(block.lines)
    start_ms, rest = _take_time(_TIME_AT_START, heading)
    if start_ms is None:
        start_ms, rest = _take_time(_TIME_IN_HEADING, heading)
    start_ms = block.link_ms if start_ms is None else start_ms
    return _Section(rest or None, start_ms, heading_has_time=start_ms is not None)


def _timed_texts(block: _Block) -> Iterator[tuple[int | None, str]]:
    """The block's text, cut at each line with a time if its first line has one; otherwise a line break is just a space."""
    if not block.lines:
        return
    start_ms, rest = _take_time(_TIME_AT_START, block.lines[0])
    if start_ms is None:
        yield block.link_ms, " ".join(block.lines)
        return
    yield start_ms, rest
    for line in block.lines[1:]:
        yield _take_time(_TIME_AT_START, line)


def _take_time(pattern: re.Pattern[str], text: str) -> tuple[int | None, str]:
    """The time that `pattern` finds, in milliseconds, and the text without it."""
    match = pattern.search(text)
    time = _FIRST_TIME.search(match[0]) if match else None
    if match is None or time is None:
        return None, text
    rest = f"{text[: match.start()]} {text[match.end() :]}"
    return parse_timecode(time[0]), " ".join(rest.split())
