"""The pages as HTML. All that comes from an archive or from a visitor goes through `element`, which escapes it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from librarian_pipeline.archive.timecodes import MS_PER_SECOND, format_timecode
from librarian_pipeline.reading.audio import moment
from librarian_pipeline.reading.marks import MarkedText
from librarian_pipeline.reporting.markup import Child, Markup, element
from librarian_pipeline.retrieval.citations import Citation
from librarian_pipeline.retrieval.modes import MODES, Passage
from librarian_pipeline.text.languages import UNDETERMINED

STYLE, SCRIPT = "/static/style.css", "/static/player.js"
MAX_QUERY_CHARACTERS = 1_000


@dataclass(frozen=True)
class Asked:
    """What the search form holds: the query, and the mode; None for the default one."""

    query: str = ""
    mode: str | None = None

    @property
    def parameters(self) -> str:
        """As they stand in an address, with the question mark; nothing where nothing was asked."""
        named = {"q": self.query, "mode": self.mode}
        found = {name: value for name, value in named.items() if value}
        return f"?{urlencode(found)}" if self.query else ""


@dataclass(frozen=True)
class Shown:
    """A passage as a page shows it. `has_audio` says whether the archive has a recording of its episode."""

    passage: Passage
    citation: Citation
    text: MarkedText
    title: str | None
    has_audio: bool
    rank: int | None = None
    is_matched: bool = False


@dataclass(frozen=True)
class Frame:
    """What stands around every page. `snapshot` is None where a page is not of one."""

    snapshot: str | None
    warning: str | None = None
    default_mode: str | None = None


def page(title: str, frame: Frame, asked: Asked, *content: Child) -> str:
    head = element(
        "head",
        _void("meta", charset="utf-8"),
        _void("meta", name="viewport", content="width=device-width,initial-scale=1"),
        element("title", f"{title} - The Librarian"),
        _void("link", rel="stylesheet", href=STYLE),
        element("script", src=SCRIPT, defer=""),
    )
    top = element(
        "header",
        element("a", "Skip to the content", href="#content", class_="skip"),
        element("p", element("a", "The Librarian", href="/"), class_="name"),
        _form(frame, asked) if frame.default_mode else None,
    )
    warning = element("p", f"Warning: {frame.warning}", class_="warning", role="status") if frame.warning else None
    foot = element("footer", element("p", f"Published index: {frame.snapshot}")) if frame.snapshot else None
    body = element("body", top, element("main", warning, *content, id="content"), foot)
    return f"<!doctype html>{element('html', head, body, lang='en')}"


def _form(frame: Frame, asked: Asked) -> Markup:
    chosen = asked.mode or frame.default_mode
    modes = [
        element(
            "option",
            f"{mode} (default)" if mode == frame.default_mode else mode,
            value=mode,
            selected="" if mode == chosen else None,
        )
        for mode in MODES
    ]
    field = _void(
        "input",
        id="q",
        type="search",
        name="q",
        value=asked.query,
        required="",
        maxlength=str(MAX_QUERY_CHARACTERS),
        autocomplete="off",
    )
    return element(
        "form",
        element("div", element("label", "Search the archive", for_="q"), field),
        element("div", element("label", "Mode", for_="mode"), element("select", *modes, id="mode", name="mode")),
        element("div", element("button", "Search", type="submit")),
        action="/search",
        method="get",
        role="search",
        class_="searching",
    )


def home_page(frame: Frame, episodes: Iterable[Mapping[str, Any]]) -> str:
    rows = [element("li", *_episode_line(row)) for row in episodes]
    return page("Episodes", frame, Asked(), element("h1", "Episodes"), element("ul", *rows, class_="catalogue"))


def _episode_line(row: Mapping[str, Any]) -> Iterable[Child]:
    yield element(
        "a", row["title"] or row["episode_id"], href=_episode_address(row["episode_id"]), lang=_lang(row["language"])
    )
    yield element("span", facts_of(row), class_="soft")


def facts_of(row: Mapping[str, Any]) -> str:
    """Id, date, length, passages, and the status if it is not good."""
    length = format_timecode(row["duration_ms"]) if row["duration_ms"] else None
    n_passages = row["n_chunks_notes"] + row["n_chunks_transcript"]
    status = None if row["status"] == "ok" else ": ".join(filter(None, [row["status"], row["status_reason"]]))
    told = [row["episode_id"], row["published_at"], length, f"{n_passages} passages", status]
    return " · ".join(filter(None, told))


def search_page(frame: Frame, asked: Asked, found: Sequence[Shown]) -> str:
    count = f"{len(found)} passages" if len(found) != 1 else "1 passage"
    told = f"{count}, the best first." if found else "No passage holds any word of this query."
    heading = element("h1", f"Results for “{asked.query}”")
    return page(asked.query, frame, asked, heading, element("p", told, class_="soft"), _passages(found, asked))


def passage_page(frame: Frame, asked: Asked, shown: Sequence[Shown]) -> str:
    """A passage and its neighbours, one of which is matched."""
    [matched] = [one for one in shown if one.is_matched]
    back = element("p", element("a", "Back to the results", href=f"/search{asked.parameters}")) if asked.query else None
    where = element(
        "p", element("a", f"All of episode {matched.passage.episode_id}", href=_page_of_episode(matched.passage))
    )
    title = element(
        "h1", matched.title or matched.citation.text, lang=_lang(matched.passage.language) if matched.title else None
    )
    player = _player(matched) if matched.has_audio else _no_audio()
    return page(matched.citation.text, frame, asked, back, title, player, _passages(shown, asked), where)


def episode_page(
    frame: Frame, row: Mapping[str, Any], shown: Sequence[Shown], has_audio: bool, number: int, n_pages: int
) -> str:
    """Page `number`, from 1, of the passages of an episode."""
    address = _episode_address(row["episode_id"])
    before = (
        element("a", "Earlier", href=f"{address}?page={number - 1}", rel="prev") if number > 1 else Markup("<span></span>")
    )
    after = (
        element("a", "Later", href=f"{address}?page={number + 1}", rel="next")
        if number < n_pages
        else Markup("<span></span>")
    )
    pages = element("nav", before, element("span", f"Page {number} of {n_pages}"), after, class_="pages", aria_label="Pages")
    return page(
        row["title"] or row["episode_id"],
        frame,
        Asked(),
        element("h1", row["title"] or row["episode_id"], lang=_lang(row["language"])),
        element("p", facts_of(row), class_="soft"),
        _audio(row["episode_id"], None) if has_audio else _no_audio(),
        _passages(shown, Asked()),
        pages if n_pages > 1 else None,
    )


def message_page(frame: Frame, asked: Asked, title: str, *lines: str) -> str:
    return page(title, frame, asked, element("h1", title), *(element("p", line) for line in lines))


def _passages(shown: Sequence[Shown], asked: Asked) -> Markup:
    return element("ol", *(_passage(one, asked) for one in shown), class_="passages")


def _passage(one: Shown, asked: Asked) -> Markup:
    passage = one.passage
    texts = [element("mark", piece) if is_marked else piece for piece, is_marked in one.text.pieces()]
    label = f"{one.rank}. {one.citation.text}" if one.rank is not None else one.citation.text
    about = " · ".join(filter(None, [one.title if one.rank is not None else None, passage.heading]))
    return element(
        "li",
        element("h2", label),
        element("p", about, class_="soft", lang=_lang(passage.language)) if about else None,
        element("p", *texts, class_="text", lang=_lang(passage.language)),
        element("p", *_links(one, asked), class_="links"),
        id=passage.chunk_id,
        class_="here" if one.is_matched else None,
        aria_current="true" if one.is_matched else None,
    )


def _links(one: Shown, asked: Asked) -> Iterable[Child]:
    at = one.citation.start_ms
    if one.has_audio and at is not None:
        yield element(
            "a",
            f"Listen from {format_timecode(at)}",
            href=f"{audio_address(one.passage.episode_id)}{moment(at)}",
            data_seconds=str(at // MS_PER_SECOND),
        )
    if not one.is_matched:
        yield element("a", "Read in context", href=f"/passages/{quote(one.passage.chunk_id, safe=':')}{asked.parameters}")


def _player(one: Shown) -> Markup:
    return _audio(one.passage.episode_id, one.citation.start_ms)


def _audio(episode_id: str, start_ms: int | None) -> Markup:
    source = audio_address(episode_id) + (moment(start_ms) if start_ms is not None else "")
    label = f"Recording of episode {episode_id}"
    player = element("audio", controls="", preload="metadata", src=source, aria_label=label)
    return element("div", player, class_="player")


def _no_audio() -> Markup:
    return element("p", "The archive has no recording of this episode.", class_="soft")


def audio_address(episode_id: str) -> str:
    return f"/audio/{quote(episode_id)}"


def _episode_address(episode_id: str) -> str:
    return f"/episodes/{quote(episode_id)}"


def _page_of_episode(passage: Passage) -> str:
    chunk_id = quote(passage.chunk_id, safe=":")
    return f"{_episode_address(passage.episode_id)}?at={chunk_id}#{chunk_id}"


def _lang(language: str | None) -> str | None:
    return language if language and language != UNDETERMINED else None


def _void(tag: str, **attributes: str | None) -> Markup:
    """An element that has no end tag."""
    return Markup(element(tag, **attributes).removesuffix(f"</{tag}>"))
