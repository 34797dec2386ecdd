import socket
from base64 import b64encode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from librarian_pipeline.archive.feeds.download import Downloaded, Downloader, DownloadError, Limits, PartFile
from librarian_pipeline_tests.archive.feeds.loopback import (
    Loopback,
    chunked,
    cut,
    gzipped,
    ranged,
    redirect,
    send,
    stating,
    status,
    trickling,
    whole,
)

BODY = bytes(range(256)) * 1_000
OTHER = BODY[::-1]
PLENTY = 10_000_000
LIMITS = Limits(max_bytes=PLENTY, timeout_s=5, attempts=3)


@pytest.fixture
def part(tmp_path: Path) -> PartFile:
    return PartFile(tmp_path / "ep.part")


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def fetch(part: PartFile, waits: list[float]) -> Callable[..., Downloaded]:
    def fetch(url: str, limits: Limits = LIMITS, feed_url: str = "") -> Downloaded:
        return Downloader(limits, feed_url, sleep=waits.append).to_file(url, part, lambda done, total: None)

    return fetch


def content(part: PartFile) -> bytes:
    return part.path.read_bytes()


def test_a_file_comes_as_it_is_and_its_type_and_version_are_told(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a.mp3"] = [whole(BODY, ETag='"v1"', Content_Type="Audio/MPEG; charset=x")]
    got = fetch(server.url("/a.mp3#t=10"))
    assert content(part) == BODY
    assert (got.content_type, got.version.etag) == ("audio/mpeg", '"v1"')
    assert server.paths() == ["/a.mp3"]


def test_the_bytes_that_came_and_all_that_will_come_are_reported(server: Loopback, part: PartFile) -> None:
    server.answers["/a"] = [cut(BODY, 1_000, ETag='"v1"'), ranged(BODY, '"v1"')]
    reports: list[tuple[int, int | None]] = []
    Downloader(LIMITS, sleep=lambda s: None).to_file(server.url("/a"), part, lambda *report: reports.append(report))
    assert reports == sorted(reports)
    assert reports[-1] == (len(BODY), len(BODY))


def test_a_cut_download_goes_on_where_it_was_cut(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded], waits: list[float]
) -> None:
    server.answers["/a"] = [cut(BODY, 100_000, ETag='"v1"'), ranged(BODY, '"v1"')]
    fetch(server.url("/a"))
    assert content(part) == BODY
    assert (server.seen[1].headers["range"], server.seen[1].headers["if-range"]) == ("bytes=100000-", '"v1"')
    assert waits == [0.5]


def test_a_later_process_goes_on_where_an_earlier_one_stopped(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [cut(BODY, 100_000, ETag='"v1"'), ranged(BODY, '"v1"')]
    with pytest.raises(DownloadError, match="cut after 100000 of 256000 bytes"):
        fetch(server.url("/a"), Limits(PLENTY, 5, attempts=1))
    fetch(server.url("/a"))
    assert content(part) == BODY
    assert server.seen[1].headers["range"] == "bytes=100000-"


def test_the_time_of_the_last_change_confirms_the_version_where_there_is_only_a_weak_tag(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    changed = "Mon, 01 Jan 2024 00:00:00 GMT"
    first = cut(BODY, 1_000, ETag='W/"v1"', Last_Modified=changed)
    server.answers["/a"] = [first, ranged(BODY, 'W/"v1"', checks=False)]
    fetch(server.url("/a"))
    assert content(part) == BODY
    assert server.seen[1].headers["if-range"] == changed


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"v1"'}])
def test_without_a_version_to_confirm_a_download_starts_anew(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded], headers: dict[str, str]
) -> None:
    server.answers["/a"] = [cut(BODY, 1_000, **headers), ranged(BODY, '"v1"')]
    fetch(server.url("/a"))
    assert content(part) == BODY
    assert "range" not in server.seen[1].headers


def test_a_server_that_ignores_ranges_makes_it_start_anew(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [cut(BODY, 1_000, ETag='"v1"'), whole(BODY, ETag='"v1"')]
    fetch(server.url("/a"))
    assert content(part) == BODY


@pytest.mark.parametrize("checks", [True, False])
def test_a_file_that_changed_in_between_is_not_mixed_with_its_older_self(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded], checks: bool
) -> None:
    server.answers["/a"] = [cut(BODY, 1_000, ETag='"v1"'), ranged(OTHER, '"v2"', checks=checks)]
    assert fetch(server.url("/a")).version.etag == '"v2"'
    assert content(part) == OTHER


def test_a_server_that_sends_another_range_than_asked_makes_it_start_anew(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    def misplaced(request: BaseHTTPRequestHandler) -> None:
        rest = len(BODY) - 1_000
        send(request, 206, BODY[:rest], Content_Range=f"bytes 0-{rest - 1}/{len(BODY)}", Content_Length=rest)

    server.answers["/a"] = [cut(BODY, 1_000, ETag='"v1"'), misplaced, whole(BODY)]
    fetch(server.url("/a"))
    assert content(part) == BODY


def test_ranges_that_are_shorter_than_asked_are_put_together(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [cut(BODY, 1_000, ETag='"v1"'), ranged(BODY, '"v1"', at_most=200_000)]
    fetch(server.url("/a"))
    assert content(part) == BODY
    assert [seen.headers.get("range") for seen in server.seen] == [None, "bytes=1000-", "bytes=201000-"]


def test_a_file_that_was_complete_but_not_yet_named_costs_no_second_download(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [ranged(BODY, '"v1"')]
    fetch(server.url("/a"))
    fetch(server.url("/a"))
    assert content(part) == BODY
    assert server.seen[1].headers["range"] == f"bytes={len(BODY)}-"


def test_what_is_there_of_another_address_is_not_gone_on_with(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [cut(BODY, 1_000, ETag='"v1"')]
    server.answers["/b"] = [ranged(OTHER, '"v1"')]
    with pytest.raises(DownloadError):
        fetch(server.url("/a"))
    fetch(server.url("/b"))
    assert content(part) == OTHER


@pytest.mark.parametrize("note", [b"", b"[]", b"{}", b'{"url": 1}', b"\xff"])
def test_a_damaged_note_about_the_version_means_starting_anew(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded], note: bytes
) -> None:
    server.answers["/a"] = [ranged(BODY, '"v1"')]
    part.path.write_bytes(b"old")
    (part.path.parent / f".{part.path.name}.json").write_bytes(note)
    fetch(server.url("/a"))
    assert content(part) == BODY


def test_a_length_that_promises_too_much_is_reported_and_what_came_is_kept(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded], waits: list[float]
) -> None:
    server.answers["/a"] = [stating(BODY, len(BODY) + 5, ETag='"v1"')]
    with pytest.raises(DownloadError, match="cut after 256000 of 256005 bytes: import again"):
        fetch(server.url("/a"))
    assert content(part) == BODY
    assert waits == [0.5, 1.0]


def test_a_length_that_promises_too_little_is_reported_and_what_came_is_not_kept(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [stating(BODY, 200_000, ETag='"v1"')]
    with pytest.raises(DownloadError, match="announced 200000 bytes and sent more"):
        fetch(server.url("/a"))
    assert not part.path.exists()


@pytest.mark.parametrize("answer", [stating(BODY, None), chunked(BODY)])
def test_a_file_without_a_length_is_complete_at_its_end(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded], answer: Callable[..., None]
) -> None:
    server.answers["/a"] = [answer]
    fetch(server.url("/a"))
    assert content(part) == BODY


def test_a_chunked_download_that_is_cut_is_noticed(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded], waits: list[float]
) -> None:
    server.answers["/a"] = [chunked(BODY, cut_after=1_000), chunked(BODY)]
    fetch(server.url("/a"))
    assert content(part) == BODY
    assert len(waits) == 1


@pytest.mark.parametrize("answer", [whole(BODY), chunked(BODY), stating(BODY, None), gzipped(BODY), stating(BODY, 10)])
def test_a_file_above_the_size_limit_is_refused_whatever_length_it_states(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded], answer: Callable[..., None]
) -> None:
    server.answers["/a"] = [answer]
    with pytest.raises(DownloadError, match=r"larger than the 0.2 MB .* raise max_file_mb|sent more"):
        fetch(server.url("/a"), Limits(200_000, 5, 1))
    assert not part.path.exists()


def test_a_file_that_announces_too_much_is_refused_before_it_comes(
    server: Loopback, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [cut(BODY, 0)]
    with pytest.raises(DownloadError, match="larger than the"):
        fetch(server.url("/a"), Limits(200_000, 5, 1))


def test_a_file_of_exactly_the_size_limit_is_taken(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [whole(BODY)]
    fetch(server.url("/a"), Limits(len(BODY), 5, 1))
    assert content(part) == BODY


def test_redirects_are_followed_to_another_host_and_relative_ones_too(
    server: Loopback, other_server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [redirect(other_server.url("/b"))]
    other_server.answers["/b"] = [redirect("c")]
    other_server.answers["/c"] = [whole(BODY)]
    fetch(server.url("/a"))
    assert content(part) == BODY


def test_redirects_in_a_circle_end(server: Loopback, fetch: Callable[..., Downloaded]) -> None:
    server.answers["/a"] = [redirect("/a")]
    with pytest.raises(DownloadError, match="more than 10 redirects"):
        fetch(server.url("/a"))
    assert len(server.seen) == 11


@pytest.mark.parametrize("to", ["file:///etc/hostname", "ftp://127.0.0.1/a", "data:,x", "http://[x", "http://h:99x/"])
def test_a_redirect_to_anything_but_http_is_refused(server: Loopback, fetch: Callable[..., Downloaded], to: str) -> None:
    server.answers["/a"] = [redirect(to)]
    with pytest.raises(DownloadError):
        fetch(server.url("/a"))
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "url", ["file:///etc/hostname", "ftp://h/a", "/etc/hostname", "javascript:1", "http:///a", "http://h:x/"]
)
def test_an_address_that_is_not_http_is_refused(fetch: Callable[..., Downloaded], url: str) -> None:
    with pytest.raises(DownloadError, match=r"only http and https|no valid port"):
        fetch(url)


def test_credentials_go_to_the_feeds_own_origin_and_to_no_other(
    server: Loopback, other_server: Loopback, fetch: Callable[..., Downloaded]
) -> None:
    feed_url = server.url("/feed").replace("//", "//anna:pass%20word@")
    server.answers["/a"] = [redirect(other_server.url("/b"))]
    other_server.answers["/b"] = [whole(BODY)]
    fetch(server.url("/a"), feed_url=feed_url)
    expected = "Basic " + b64encode(b"anna:pass word").decode()
    assert server.seen[0].headers["authorization"] == expected
    assert "authorization" not in other_server.seen[0].headers
    assert "anna" not in str(other_server.seen)


def test_credentials_in_the_addresses_of_a_redirect_stay_with_that_hop(
    server: Loopback, other_server: Loopback, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [redirect(other_server.url("/b").replace("//", "//eva:x@"))]
    other_server.answers["/b"] = [redirect(server.url("/c"))]
    server.answers["/c"] = [whole(BODY)]
    fetch(server.url("/a"))
    assert "authorization" in other_server.seen[0].headers
    assert [seen for seen in server.seen if "authorization" in seen.headers] == []


def test_no_credentials_are_taken_from_this_machine(
    server: Loopback, fetch: Callable[..., Downloaded], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login anna password secret")
    monkeypatch.setenv("NETRC", str(netrc))
    server.answers["/a"] = [whole(BODY)]
    fetch(server.url("/a"))
    assert "authorization" not in server.seen[0].headers


def test_credentials_are_not_shown_in_errors(server: Loopback, fetch: Callable[..., Downloaded]) -> None:
    server.answers["/a"] = [status(403)]
    with pytest.raises(DownloadError) as caught:
        fetch(server.url("/a").replace("//", "//anna:secret@"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("code", [404, 408, 500, 503])
def test_an_error_that_passes_is_tried_again(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded], code: int, waits: list[float]
) -> None:
    server.answers["/a"] = [status(code), whole(BODY)]
    fetch(server.url("/a"))
    assert content(part) == BODY
    assert waits == [0.5]


def test_an_error_that_stays_is_reported_after_the_last_attempt(server: Loopback, fetch: Callable[..., Downloaded]) -> None:
    server.answers["/a"] = [status(500)]
    with pytest.raises(DownloadError, match="the server answers 500 Internal Server Error"):
        fetch(server.url("/a"))
    assert len(server.seen) == 3


def test_an_error_that_cannot_pass_is_not_tried_again(server: Loopback, fetch: Callable[..., Downloaded]) -> None:
    server.answers["/a"] = [status(403), whole(BODY)]
    with pytest.raises(DownloadError, match="the server answers 403 Forbidden"):
        fetch(server.url("/a"))
    assert len(server.seen) == 1


def test_an_error_in_between_keeps_what_has_come(server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]) -> None:
    server.answers["/a"] = [cut(BODY, 1_000, ETag='"v1"'), status(500), ranged(BODY, '"v1"')]
    fetch(server.url("/a"))
    assert content(part) == BODY
    assert server.seen[2].headers["range"] == "bytes=1000-"


@pytest.mark.parametrize(("header", "wait_s"), [("7", 7.0), ("soon", 0.5), ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0)])
def test_a_server_that_asks_to_wait_is_obeyed(
    server: Loopback, fetch: Callable[..., Downloaded], waits: list[float], header: str, wait_s: float
) -> None:
    server.answers["/a"] = [status(429, Retry_After=header), whole(BODY)]
    fetch(server.url("/a"))
    assert waits == [wait_s]


def test_a_server_that_asks_to_wait_for_long_is_left_for_another_time(
    server: Loopback, fetch: Callable[..., Downloaded], waits: list[float]
) -> None:
    server.answers["/a"] = [status(429, Retry_After="86400")]
    with pytest.raises(DownloadError, match="429"):
        fetch(server.url("/a"))
    assert waits == []


def test_a_slow_server_is_waited_for_while_something_comes(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [trickling(BODY, [0.25] * 10)]
    fetch(server.url("/a"), Limits(PLENTY, 2, 1))
    assert content(part) == BODY


def test_a_server_that_stops_sending_counts_as_broken_off(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [trickling(BODY, [0.0, 1.0]), whole(BODY)]
    with pytest.raises(DownloadError, match="the server stopped answering"):
        fetch(server.url("/a"), Limits(PLENTY, 0.3, 1))
    assert content(part) == BODY[: len(BODY) // 2]


def test_a_connection_that_stays_open_after_the_last_byte_does_not_spoil_the_file(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [trickling(BODY, [0.0, 0.0], stays_s=0.8)]
    fetch(server.url("/a"), Limits(PLENTY, 0.3, 1))
    assert content(part) == BODY


def test_compressed_content_is_unpacked(server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]) -> None:
    server.answers["/a"] = [gzipped(BODY, ETag='"v1"')]
    fetch(server.url("/a"))
    assert content(part) == BODY
    assert Downloader(LIMITS).to_memory(server.url("/a")) == BODY


def test_compressed_content_that_is_cut_starts_anew(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded]
) -> None:
    server.answers["/a"] = [gzipped(BODY, cut_after=900, ETag='"v1"'), gzipped(BODY, ETag='"v1"')]
    fetch(server.url("/a"))
    assert content(part) == BODY
    assert "range" not in server.seen[1].headers


def test_content_that_only_claims_to_be_compressed_is_reported(server: Loopback, fetch: Callable[..., Downloaded]) -> None:
    server.answers["/a"] = [whole(BODY, Content_Encoding="gzip")]
    with pytest.raises(DownloadError, match="can't be unpacked"):
        fetch(server.url("/a"))


def test_a_server_that_is_not_there_is_reported(fetch: Callable[..., Downloaded], waits: list[float]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DownloadError, match="no connection to the server"):
        fetch(f"http://127.0.0.1:{port}/a")
    assert len(waits) == 2


def test_a_finished_file_gets_its_name_in_one_step_and_leaves_nothing_beside_it(
    server: Loopback, part: PartFile, fetch: Callable[..., Downloaded], tmp_path: Path
) -> None:
    server.answers["/a"] = [whole(BODY, ETag='"v1"')]
    fetch(server.url("/a")).part.publish(tmp_path / "ep.mp3")
    assert [path.name for path in tmp_path.iterdir()] == ["ep.mp3"]
