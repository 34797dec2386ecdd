"""Where a feed is, and what its addresses mean there: they lead to http and https; in a local feed, to its folder, too."""

import os
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urljoin, urlsplit

from librarian_pipeline.archive.feeds.download import (
    MAX_DOCUMENT_BYTES,
    Downloaded,
    Downloader,
    DownloadError,
    Limits,
    PartFile,
    Report,
    Version,
    shown,
)
from librarian_pipeline.errors import UsageError
from librarian_pipeline.settings import FeedSettings

BYTES_PER_MB = 1_000_000
_CHUNK_BYTES = 1 << 20
_REMOTE = ("http", "https")


class Source(Protocol):
    """A feed that can be read, and what it refers to."""

    @property
    def name(self) -> str:
        """What errors call it."""

    def read(self) -> bytes:
        """The feed. Raises `UsageError` where it can't be had."""

    def fetch(self, reference: str, part: PartFile, report: Report) -> Downloaded:
        """Brings a file that the feed refers to into `part`. Raises `DownloadError`."""

    def document(self, reference: str) -> bytes:
        """A small file that the feed refers to. Raises `LibrarianError` where it can't be had or is too large."""


def open_source(feed: str, settings: FeedSettings) -> Source:
    """The feed at a path or an http(s) address. Raises `UsageError` for other addresses."""
    limits = Limits(int(settings.max_file_mb * BYTES_PER_MB), settings.timeout_s, settings.attempts)
    try:
        scheme = urlsplit(feed).scheme
    except ValueError as error:
        raise UsageError(f"{feed!r} is not an address", "name a file, or an http or https address") from error
    if scheme in _REMOTE:
        return RemoteSource(feed, limits)
    if "://" in feed:
        raise UsageError(f"{feed!r} is neither http nor https", "name a file, or an http or https address")
    return LocalSource(Path(feed).expanduser().absolute(), limits)


class RemoteSource:
    """A feed at an address. Relative references are relative to it."""

    def __init__(self, url: str, limits: Limits) -> None:
        self._url = url
        self._downloader = Downloader(limits, url)

    @property
    def name(self) -> str:
        return shown(self._url)

    def read(self) -> bytes:
        try:
            return self._downloader.to_memory(self._url)
        except DownloadError as error:
            raise UsageError(error.message, "check the address, or download the feed and name the file") from error

    def fetch(self, reference: str, part: PartFile, report: Report) -> Downloaded:
        return self._downloader.to_file(self._resolved(reference), part, report)

    def document(self, reference: str) -> bytes:
        return self._downloader.to_memory(self._resolved(reference))

    def _resolved(self, reference: str) -> str:
        try:
            # The downloader knows where credentials go, and what is noted of an address must not hold them.
            return urljoin(shown(self._url), reference)
        except ValueError as error:
            raise _not_an_address(reference) from error


class LocalSource:
    """A feed in a file. References may be http and https addresses, or lead to files in the feed's folder."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._folder = path.resolve().parent
        self._limits = limits
        self._downloader = Downloader(limits)

    @property
    def name(self) -> str:
        return str(self._path)

    def read(self) -> bytes:
        try:
            return _read_bounded(self._path)
        except OSError as error:
            message = f"{self._path} can't be read ({error.strerror})"
            raise UsageError(message, "name the file of an RSS feed, or its address") from error

    def fetch(self, reference: str, part: PartFile, report: Report) -> Downloaded:
        path = self._file(reference)
        if path is None:
            return self._downloader.to_file(reference, part, report)
        version = Version(reference, None, None)
        part.start(version)
        _copy(path, part, self._limits.max_bytes, report)
        return Downloaded(part, "", version)

    def document(self, reference: str) -> bytes:
        path = self._file(reference)
        return self._downloader.to_memory(reference) if path is None else _read_bounded(path)

    def _file(self, reference: str) -> Path | None:
        """The file in the feed's folder that is meant; None for an http or https address."""
        try:
            parts = urlsplit(reference)
            if parts.scheme in _REMOTE:
                return None
            if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
                raise DownloadError(f"{reference!r} is not fetched", "use http, https, or a path below the feed's folder")
            path = self._folder / unquote(parts.path)
            as_written = self._folder / reference
            path = as_written if not parts.scheme and as_written.is_file() else path
            # Links are followed before the check: one that leads out of the folder is as good as `..`.
            if not path.resolve().is_relative_to(self._folder):
                raise DownloadError(f"{reference!r} is outside of the feed's folder", "move the file below it")
            if not path.is_file() or not os.access(path, os.R_OK):
                raise DownloadError(f"there is no file {reference!r} to read in the feed's folder", "put it there")
        except ValueError as error:
            raise _not_an_address(reference) from error
        return path


def _not_an_address(reference: str) -> DownloadError:
    return DownloadError(f"{reference!r} is not an address", "tell whoever publishes the feed")


def _read_bounded(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(content) > MAX_DOCUMENT_BYTES:
        raise UsageError(f"{path} is larger than {MAX_DOCUMENT_BYTES / BYTES_PER_MB:g} MB", "name the file of an RSS feed")
    return content


def _copy(path: Path, part: PartFile, max_bytes: int, report: Report) -> None:
    n_bytes, total = 0, path.stat().st_size
    with path.open("rb") as source, part.path.open("wb") as target:
        while piece := source.read(_CHUNK_BYTES):
            n_bytes += len(piece)
            if n_bytes > max_bytes:
                part.discard()
                message = f"{path.name} is larger than the {max_bytes / BYTES_PER_MB:g} MB that a file may have"
                raise DownloadError(message, "raise max_file_mb in [feeds] of librarian.toml if it should be taken")
            target.write(piece)
            report(n_bytes, total)
