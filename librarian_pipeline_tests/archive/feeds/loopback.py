"""A server on this machine that answers as real ones do: well, badly, and with lies."""

import gzip
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Seen:
    """A request as it came."""

    path: str
    headers: dict[str, str]


@dataclass
class Loopback:
    """Answers each path with its answers in turn; the last one is given again and again."""

    port: int
    answers: dict[str, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    seen: list[Seen] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def paths(self) -> list[str]:
        return [request.path for request in self.seen]


@contextmanager
def running() -> Iterator[Loopback]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10

        def do_GET(self) -> None:
            loopback.seen.append(Seen(self.path, {name.lower(): value for name, value in self.headers.items()}))
            answers = loopback.answers[self.path]
            answer = answers.pop(0) if len(answers) > 1 else answers[0] if answers else status(404)
            self.close_connection = True
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    loopback = Loopback(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield loopback
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def send(request: BaseHTTPRequestHandler, code: int, body: bytes = b"", **headers: object) -> None:
    request.send_response(code)
    for name, value in headers.items():
        if value is not None:
            request.send_header(name.replace("_", "-"), str(value))
    request.send_header("Connection", "close")
    request.end_headers()
    request.wfile.write(body)


def whole(body: bytes, **headers: object) -> Answer:
    return lambda request: send(request, 200, body, **{"Content_Length": len(body), **headers})


def status(code: int, **headers: object) -> Answer:
    return lambda request: send(request, code, b"no", **{"Content_Length": 2, **headers})


def redirect(to: str) -> Answer:
    return status(302, Location=to)


def cut(body: bytes, after: int, **headers: object) -> Answer:
    """Promises `body`, and closes the connection after some of it."""
    return lambda request: send(request, 200, body[:after], Content_Length=len(body), **headers)


def stating(body: bytes, length: int | None, **headers: object) -> Answer:
    """The whole body, with a wrong `Content-Length` or none."""
    return lambda request: send(request, 200, body, Content_Length=length, **headers)


def ranged(body: bytes, etag: str, *, at_most: int | None = None, checks: bool = True, **headers: object) -> Answer:
    """Honours `Range` and, if it `checks`, `If-Range`; may send less than the rest."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked = request.headers.get("Range")
        if asked is None or (checks and request.headers.get("If-Range") not in (etag, None)):
            send(request, 200, body, Content_Length=len(body), ETag=etag, **headers)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-"))
        if start >= len(body):
            send(request, 416, Content_Range=f"bytes */{len(body)}", Content_Length=0, ETag=etag)
            return
        rest = body[start:][:at_most]
        span = f"bytes {start}-{start + len(rest) - 1}/{len(body)}"
        send(request, 206, rest, Content_Range=span, Content_Length=len(rest), ETag=etag, **headers)

    return answer


def chunked(body: bytes, *, cut_after: int | None = None) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        send(request, 200, Transfer_Encoding="chunked")
        request.wfile.write(b"%x\r\n%b" % (len(body), body[:cut_after]))
        if cut_after is None:
            request.wfile.write(b"\r\n0\r\n\r\n")

    return answer


def trickling(body: bytes, pauses_s: list[float], *, stays_s: float = 0, **headers: object) -> Answer:
    """The body in as many pieces as there are pauses before them; then the connection stays open for a while."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        send(request, 200, b"", Content_Length=len(body), **headers)
        size = -(-len(body) // len(pauses_s))
        for number, pause_s in enumerate(pauses_s):
            time.sleep(pause_s)
            request.wfile.write(body[number * size : (number + 1) * size])
            request.wfile.flush()
        time.sleep(stays_s)

    return answer


def gzipped(body: bytes, *, cut_after: int | None = None, **headers: object) -> Answer:
    packed = gzip.compress(body)
    return lambda request: send(
        request, 200, packed[:cut_after], Content_Encoding="gzip", Content_Length=len(packed), **headers
    )
