"""The pages behind their addresses. Only reading, only for this machine, and nothing of any other host."""

from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from librarian_pipeline.errors import LibrarianError, UsageError
from librarian_pipeline.reading.audio import audio_of
from librarian_pipeline.reading.marks import MarkedText, excerpt, marked
from librarian_pipeline.retrieval.citations import Citation, cite
from librarian_pipeline.retrieval.modes import Passage
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.serving.library import Library
from librarian_pipeline.web import pages
from librarian_pipeline.web.pages import MAX_QUERY_CHARACTERS, SCRIPT, STYLE, Asked, Frame, Shown
from librarian_pipeline.web.script import JAVASCRIPT
from librarian_pipeline.web.style import CSS

LOOPBACK = "127.0.0.1"
RESULTS = 10
EXCERPT_CHARACTERS = 420
NEIGHBOURS = 2
PASSAGES_A_PAGE = 20
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; media-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


def web_app(library: Library, port: int) -> ASGIApp:
    """Answers only those who ask for this machine by name, at this port."""
    site = _Site(library)
    app = Starlette(
        routes=[
            Route("/", site.home, methods=["GET"]),
            Route("/search", site.search, methods=["GET"]),
            Route("/passages/{chunk_id}", site.passage, methods=["GET"]),
            Route("/episodes/{episode_id}", site.episode, methods=["GET"]),
            Route("/audio/{episode_id}", site.audio, methods=["GET"]),
            Route("/favicon.ico", _no_icon, methods=["GET"]),
            Route(STYLE, _fixed(CSS, "text/css"), methods=["GET"]),
            Route(SCRIPT, _fixed(JAVASCRIPT, "text/javascript"), methods=["GET"]),
        ],
        exception_handlers={HTTPException: _refusal, LibrarianError: _out_of_order},
    )
    return _Guard(app, {f"{host}:{port}" for host in (LOOPBACK, "localhost")})


class _Guard:
    """Turns away who asks for another host, as a page elsewhere does whose name was made to lead here."""

    def __init__(self, app: ASGIApp, hosts: set[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        asked_for = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        is_meant = len(asked_for) == 1 and asked_for[0] in self._hosts
        answer = self._app if is_meant else PlainTextResponse("not the host that is served here\n", 421)
        await answer(scope, receive, send_with_headers)


class _Site:
    def __init__(self, library: Library) -> None:
        self._library = library
        self._archive = library.workspace.archive

    def home(self, request: Request) -> Response:
        return self._library.carry_out(
            lambda edition: HTMLResponse(pages.home_page(_frame(edition), edition.episodes.values()))
        )

    def search(self, request: Request) -> Response:
        asked = _asked(request)

        def found(edition: Edition) -> Response:
            try:
                hits = edition.search(asked.query, asked.mode, RESULTS)
            except UsageError as error:
                return _message(
                    _frame(edition), Asked(asked.query), HTTPStatus.BAD_REQUEST, "That can't be searched", str(error)
                )
            has_audio = cache(partial(self._has_audio, edition))
            shown = [
                _shown(
                    *(edition, hit.passage, hit.citation, asked),
                    has_audio=has_audio(hit.passage.episode_id),
                    rank=hit.hit.rank,
                    length=EXCERPT_CHARACTERS,
                )
                for hit in hits
            ]
            return HTMLResponse(pages.search_page(_frame(edition), asked, shown))

        return self._library.carry_out(found)

    def passage(self, request: Request) -> Response:
        asked, chunk_id = _asked(request), request.path_params["chunk_id"]

        def read(edition: Edition) -> Response:
            passage = edition.searcher.passages.get(chunk_id)
            if passage is None:
                return _not_there(_frame(edition), "There is no such passage in the published index")
            has_audio = self._has_audio(edition, passage.episode_id)
            shown = [
                _shown(
                    *(edition, one, _citation(edition, one, asked), asked),
                    has_audio=has_audio,
                    is_matched=one.chunk_id == chunk_id,
                )
                for one in _around(edition.passages_of(passage.episode_id), passage)
            ]
            return HTMLResponse(pages.passage_page(_frame(edition), asked, shown))

        return self._library.carry_out(read)

    def episode(self, request: Request) -> Response:
        episode_id, number, at = (
            request.path_params["episode_id"],
            request.query_params.get("page"),
            request.query_params.get("at"),
        )

        def read(edition: Edition) -> Response:
            row = edition.episodes.get(episode_id)
            if row is None:
                return _not_there(_frame(edition), "There is no such episode in the published index")
            passages = edition.passages_of(episode_id)
            n_pages = max(1, -(-len(passages) // PASSAGES_A_PAGE))
            chosen = _page_number(number, at, passages)
            if chosen is None or not 1 <= chosen <= n_pages:
                return _not_there(_frame(edition), f"This episode has the pages 1 to {n_pages}")
            first = (chosen - 1) * PASSAGES_A_PAGE
            has_audio = self._has_audio(edition, episode_id)
            shown = [
                _shown(edition, one, cite(one, one.start_ms), Asked(), has_audio=has_audio)
                for one in passages[first : first + PASSAGES_A_PAGE]
            ]
            return HTMLResponse(pages.episode_page(_frame(edition), row, shown, has_audio, chosen, n_pages))

        return self._library.carry_out(read)

    def audio(self, request: Request) -> Response:
        """The recording, or the range of it that is asked for. Only of episodes that the published index has."""
        episode_id = request.path_params["episode_id"]
        is_known = self._library.carry_out(lambda edition: episode_id in edition.episodes)
        path = audio_of(self._archive, episode_id) if is_known else None
        if path is None:
            return PlainTextResponse("there is no such recording\n", HTTPStatus.NOT_FOUND)
        return FileResponse(path, stat_result=path.stat())

    def _has_audio(self, edition: Edition, episode_id: str) -> bool:
        return episode_id in edition.episodes and audio_of(self._archive, episode_id) is not None


def _shown(
    edition: Edition,
    passage: Passage,
    citation: Citation,
    asked: Asked,
    *,
    has_audio: bool,
    rank: int | None = None,
    is_matched: bool = False,
    length: int | None = None,
) -> Shown:
    """With its whole text, or at most `length` characters of it."""
    whole = marked(passage, asked.query, edition.searcher) if asked.query else MarkedText(passage.text)
    title = edition.episodes.get(passage.episode_id, {}).get("title")
    text = whole if length is None else excerpt(whole, length)
    return Shown(passage, citation, text, title, has_audio, rank, is_matched)


def _asked(request: Request) -> Asked:
    """Raises `HTTPException` for a query that is too long."""
    query = request.query_params.get("q", "").strip()
    if len(query) > MAX_QUERY_CHARACTERS:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"a query has at most {MAX_QUERY_CHARACTERS} characters")
    return Asked(query, request.query_params.get("mode") or None)


def _citation(edition: Edition, passage: Passage, asked: Asked) -> Citation:
    return edition.citer.cite(asked.query, passage) if asked.query else cite(passage, passage.start_ms)


def _around(passages: Sequence[Passage], passage: Passage) -> Sequence[Passage]:
    """The passage between its neighbours of the same layer."""
    beside = [one for one in passages if one.layer == passage.layer]
    at = beside.index(passage)
    return beside[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]


def _page_number(number: str | None, at: str | None, passages: Sequence[Passage]) -> int | None:
    """From 1: the page that is asked for, or the one with the passage that is; None for what is no number."""
    if number is None:
        rows = [row for row, passage in enumerate(passages) if passage.chunk_id == at]
        return rows[0] // PASSAGES_A_PAGE + 1 if rows else 1
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 7 else None


def _frame(edition: Edition) -> Frame:
    return Frame(edition.id, edition.warning, edition.searcher.default_mode)


def _message(frame: Frame, asked: Asked, status: HTTPStatus, title: str, *lines: str) -> Response:
    return HTMLResponse(pages.message_page(frame, asked, title, *lines), status)


def _not_there(frame: Frame, title: str) -> Response:
    return _message(frame, Asked(), HTTPStatus.NOT_FOUND, title)


def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    response = _message(Frame(None), Asked(), status, status.phrase, error.detail if error.detail != status.phrase else "")
    response.headers.update(error.headers or {})
    return response


def _out_of_order(request: Request, error: Exception) -> Response:
    """Before the first publication, and where no published snapshot is whole."""
    assert isinstance(error, LibrarianError)
    return _message(
        Frame(None), Asked(), HTTPStatus.SERVICE_UNAVAILABLE, "Nothing can be searched", error.message, error.fix
    )


async def _no_icon(request: Request) -> Response:
    """Browsers ask for one by themselves."""
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _fixed(text: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return Response(text, media_type=media_type)

    return answer
