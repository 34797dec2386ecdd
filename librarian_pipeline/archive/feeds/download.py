"""Downloads that survive cut connections, servers that lie, and a machine that goes off in between.

Bytes go into a `.part` file, with a small JSON file beside it that says which version of which address they are from. Later
attempts, in this process or in another, go on from there while the server confirms that it is still the same version.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn
from urllib.parse import SplitResult, unquote, urldefrag, urljoin, urlsplit, urlunsplit

import requests
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.exceptions import DecodeError, HTTPError

from librarian_pipeline.errors import LibrarianError

MAX_REDIRECTS = 10
MAX_WAIT_S = 60.0
FIRST_WAIT_S = 0.5
# Documents are held in memory; no feed or chapter file comes near this.
MAX_DOCUMENT_BYTES = 100_000_000

_CHUNK_BYTES = 1 << 16
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_WORTH_ANOTHER_TRY = frozenset({404, 408, 425, 429, 500, 502, 503, 504})
_USER_AGENT = "librarian-pipeline"
_BAD_ADDRESS = (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema)

Report = Callable[[int, int | None], None]
"""Receives the bytes that are there and, where it is known, how many there will be."""


class DownloadError(LibrarianError):
    """Something that can't be downloaded, or not now."""


class _BrokenOffError(Exception):
    """An attempt that failed in a way that the next may not."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        self.wait_s = wait_s
        """seconds that the server asks to wait"""
        super().__init__(message)


class _OtherVersionError(Exception):
    """What is in the `.part` file doesn't belong to what the server has now."""


@dataclass(frozen=True)
class Limits:
    """Bounds on one download."""

    max_bytes: int
    timeout_s: float
    """without a byte for this long, it counts as broken off"""
    attempts: int


@dataclass(frozen=True)
class Version:
    """Which version of which address a `.part` file holds the beginning of."""

    url: str
    etag: str | None
    last_modified: str | None

    @property
    def validator(self) -> str | None:
        """What `If-Range` takes: a weak ETag doesn't promise equal bytes."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.last_modified


@dataclass(frozen=True)
class Downloaded:
    """A complete `.part` file."""

    part: "PartFile"
    content_type: str
    """as the server says, lower case, without parameters; may be empty"""
    version: Version


class PartFile:
    """A file under a name that nobody takes for a finished one, and the note about its version."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Hidden, so that nobody takes it for a file of the archive.
        self._note = path.with_name(f".{path.name}.json")

    @property
    def n_bytes(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def resumable(self, url: str) -> Version | None:
        """The version to go on with; None where there is nothing, or nothing that the server could confirm."""
        try:
            version = Version(**json.loads(self._note.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return version if version.url == url and version.validator and self.n_bytes else None

    def start(self, version: Version) -> None:
        """Empties the file, and only then notes the version: never are old bytes under a new note."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.discard()
        self.path.touch()
        self._note.write_text(json.dumps(asdict(version)), encoding="utf-8")

    def discard(self) -> None:
        self._note.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def publish(self, target: Path) -> None:
        """Gives the complete file its final name, in one step."""
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
        self.path.replace(target)
        self._note.unlink(missing_ok=True)


class _NoCredentials(AuthBase):
    """Keeps requests from taking some out of a .netrc file for whatever host a feed names."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class _Session(requests.Session):
    """Leaves redirects alone: even when told not to follow them, requests reads their bodies, however long they are."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


class Downloader:
    """Fetches http and https addresses. Credentials in the feed's own address go to its own origin, and nowhere else."""

    def __init__(self, limits: Limits, feed_url: str = "", sleep: Callable[[float], None] = time.sleep) -> None:
        self._limits = limits
        self._sleep = sleep
        self._session = _Session()
        self._session.headers.update({"User-Agent": _USER_AGENT, "Connection": "close"})
        self._feed = urlsplit(feed_url)

    def to_file(self, url: str, part: PartFile, report: Report) -> Downloaded:
        """Downloads `url` into `part`, going on with what is there of the same version.

        Raises `DownloadError`. Then, and when it is interrupted, what has come stays in `part` for the next time, unless
        that is of no use.
        """
        return self._to_file(url, part, report, self._limits.max_bytes, encoding="identity")

    def to_memory(self, url: str) -> bytes:
        """A document such as a feed. Raises `DownloadError`."""
        max_bytes = min(self._limits.max_bytes, MAX_DOCUMENT_BYTES)
        with TemporaryDirectory(prefix="librarian-") as folder:
            part = PartFile(Path(folder) / "document.part")
            self._to_file(url, part, lambda done, total: None, max_bytes, encoding="gzip, deflate")
            return part.path.read_bytes()

    def _to_file(self, url: str, part: PartFile, report: Report, max_bytes: int, encoding: str) -> Downloaded:
        for attempt in range(1, self._limits.attempts + 1):
            try:
                return self._attempt(urldefrag(url).url, part, report, max_bytes, encoding)
            except _BrokenOffError as error:
                wait_s = FIRST_WAIT_S * 2 ** (attempt - 1) if error.wait_s is None else error.wait_s
                if attempt == self._limits.attempts or wait_s > MAX_WAIT_S:
                    raise DownloadError(f"{shown(url)}: {error}", "import again to go on from there") from error
                self._sleep(wait_s)
        raise AssertionError("there is at least one attempt")

    def _attempt(self, url: str, part: PartFile, report: Report, max_bytes: int, encoding: str) -> Downloaded:
        version = part.resumable(shown(url))
        if version is not None:
            try:
                return self._receive(url, part, version, report, max_bytes, encoding)
            except _OtherVersionError:
                part.discard()
        return self._receive(url, part, None, report, max_bytes, encoding)

    def _receive(
        self, url: str, part: PartFile, known: Version | None, report: Report, max_bytes: int, encoding: str
    ) -> Downloaded:
        headers = {"Accept-Encoding": encoding}
        if known is not None:
            headers |= {"Range": f"bytes={part.n_bytes}-", "If-Range": str(known.validator)}
        with _network_errors(url), self._open(url, headers) as response:
            content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if known is not None and response.status_code in (206, 416):
                version = known
                if _is_whole(response, part, known):
                    return Downloaded(part, content_type, known)
            else:
                _refuse_bad_status(response, url)
                version = _version(response, shown(url))
                part.start(version)
            _append(response, part, report, max_bytes, url)
            return Downloaded(part, content_type, version)

    def _open(self, url: str, headers: dict[str, str]) -> requests.Response:
        """The answer at the end of the redirects, which are followed here so that each hop is checked."""
        for _ in range(MAX_REDIRECTS + 1):
            _refuse_other_schemes(url)
            response = self._session.get(
                _without_credentials(url),
                headers=headers,
                auth=self._auth(url),
                timeout=self._limits.timeout_s,
                stream=True,
                allow_redirects=False,
            )
            location = response.headers.get("Location")
            if response.status_code not in _REDIRECTS or location is None:
                return response
            response.close()
            url = _redirected(url, location)
        raise DownloadError(f"{shown(url)}: more than {MAX_REDIRECTS} redirects", "check the address in a browser")

    def _auth(self, url: str) -> AuthBase:
        parts = urlsplit(url)
        if not parts.username and _origin(parts) == _origin(self._feed):
            parts = self._feed
        if not parts.username:
            return _NoCredentials()
        return HTTPBasicAuth(unquote(parts.username), unquote(parts.password or ""))


def shown(url: str) -> str:
    """An address for people to read, without the credentials in it."""
    return _without_credentials(url)


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


def _redirected(url: str, location: str) -> str:
    try:
        # Headers come as Latin-1, and addresses in them are UTF-8 where they are not ASCII.
        return urljoin(url, location.encode("latin-1").decode("utf-8", "replace"))
    except ValueError as error:
        raise DownloadError(f"{shown(url)}: redirects to {location!r}", "tell whoever publishes the feed") from error


def _refuse_other_schemes(url: str) -> None:
    parts = urlsplit(url)
    try:
        _origin(parts)
    except ValueError as error:
        raise DownloadError(f"{shown(url)} has no valid port", "tell whoever publishes the feed") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DownloadError(f"{shown(url)}: only http and https addresses are fetched", "tell whoever publishes the feed")


@contextlib.contextmanager
def _network_errors(url: str) -> Iterator[None]:
    """What goes wrong on the way, as an attempt that was broken off."""
    try:
        yield
    except _BAD_ADDRESS as error:
        raise DownloadError(
            f"{shown(url)} is not an address that can be fetched", "tell whoever publishes the feed"
        ) from error
    except (requests.RequestException, HTTPError) as error:
        raise _BrokenOffError(_reason(error)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return "no secure connection: the server's certificate is not accepted"
    if isinstance(error, requests.exceptions.Timeout) or "timed out" in str(error).lower():
        return "the server stopped answering"
    if isinstance(error, DecodeError):
        return "what the server sends as compressed can't be unpacked"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "no connection to the server"
    return "the connection was cut"


def _refuse_bad_status(response: requests.Response, url: str) -> None:
    status = response.status_code
    if status == 200:
        return
    line = f"the server answers {status} {response.reason or ''}".strip()
    if status in _WORTH_ANOTHER_TRY:
        raise _BrokenOffError(line, _retry_after_s(response.headers.get("Retry-After")))
    raise DownloadError(f"{shown(url)}: {line}", "check the address in a browser")


def _retry_after_s(header: str | None) -> float | None:
    """Seconds, which the server gives as a number or as a date. None where it gives neither."""
    if header is None:
        return None
    if header.strip().isascii() and header.strip().isdigit():
        return float(header)
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    return None


def _version(response: requests.Response, url: str) -> Version:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        # Ranges would count the bytes of the encoded form, and not those that were kept.
        return Version(url, None, None)
    return Version(url, response.headers.get("ETag"), response.headers.get("Last-Modified"))


def _is_whole(response: requests.Response, part: PartFile, known: Version) -> bool:
    """Whether there is nothing more to come. Raises `_OtherVersionError` where what is there can't be gone on with."""
    etag = response.headers.get("ETag")
    if (etag and known.etag and etag != known.etag) or response.headers.get("Content-Encoding", "identity") != "identity":
        raise _OtherVersionError
    span, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
    if response.status_code == 416:
        if total != str(part.n_bytes):
            raise _OtherVersionError
        return True
    if span.partition("-")[0].strip() != str(part.n_bytes):
        raise _OtherVersionError
    return False


def _append(response: requests.Response, part: PartFile, report: Report, max_bytes: int, url: str) -> None:
    """Adds what comes to the file, which is complete on return."""
    begun = part.n_bytes
    stated = _stated_bytes(response)
    total = _range_total(response) or (begun + stated if stated is not None else None)
    if total is not None and total > max_bytes:
        _refuse_size(part, max_bytes, url)
    with part.path.open("ab") as file:
        n_bytes = begun
        for piece in _pieces(response, stated):
            n_bytes += len(piece)
            if n_bytes > max_bytes:
                _refuse_size(part, max_bytes, url)
            file.write(piece)
            report(n_bytes, total)
    if total is None or n_bytes == total:
        return
    if n_bytes > total:
        part.discard()
        raise _BrokenOffError(f"the server announced {total} bytes and sent more")
    raise _BrokenOffError(f"the connection was cut after {n_bytes} of {total} bytes")


def _pieces(response: requests.Response, stated: int | None) -> Iterator[bytes]:
    """The body as it comes, as much as there is at a time: a server that trickles can be watched, and cut off."""
    if stated is not None:
        _read_to_the_end(response)
    seen = 0
    while seen <= (stated or seen):
        try:
            piece = response.raw.read1(_CHUNK_BYTES, decode_content=True)
        except HTTPError:
            if seen == stated:
                return  # Everything has come, and only the end of the connection was waited for.
            raise
        if not piece:
            return
        seen += len(piece)
        yield piece


def _read_to_the_end(response: requests.Response) -> None:
    """Has the body end where the connection does, and not after `Content-Length`, where Python stops reading.

    There is no other way to see that a server sends more than it announced. Where the connection stays open, despite our
    asking, the announced length has to do.
    """
    message = response.raw._fp
    if message.will_close:
        message.length = None
        response.raw.length_remaining = None


def _stated_bytes(response: requests.Response) -> int | None:
    """The announced length of the body as it will be kept; None where it isn't known."""
    length = response.headers.get("Content-Length", "")
    is_plain = response.headers.get("Content-Encoding", "identity") == "identity" and not response.raw.chunked
    return int(length) if is_plain and length.isascii() and length.isdigit() else None


def _range_total(response: requests.Response) -> int | None:
    """The length of the whole file, of which a server may send less than the rest that it was asked for."""
    total = response.headers.get("Content-Range", "").rpartition("/")[2]
    return int(total) if response.status_code == 206 and total.isascii() and total.isdigit() else None


def _refuse_size(part: PartFile, max_bytes: int, url: str) -> NoReturn:
    part.discard()
    message = f"{shown(url)} is larger than the {max_bytes / 1e6:g} MB that a file may have"
    raise DownloadError(message, "raise max_file_mb in [feeds] of librarian.toml if it should be taken")
