"""Azure OpenAI and Azure AI Search on this machine, as far as their REST API goes: for the real SDKs to talk to.

Words are split at what is no letter and no digit, and vectors are counts of hashed words. It shows that requests are right,
and that answers and faults are taken well; of how well Azure finds things it shows nothing.
"""

import json
import re
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from librarian_pipeline.retrieval.fusion import reciprocal_rank_fusion
from librarian_pipeline.retrieval.ranking import Ranked

KEY = "b7e1f0c2-a-key-that-nobody-may-see"
OPENAI_KEY = "9d42aa77-another-key-that-nobody-may-see"
NAME = "podcast"
OPERATORS = set("+|-\"()'*~")
TOKENS_PER_TEXT = 7


@dataclass
class Request:
    """As it came."""

    operation: str
    method: str
    path: str
    api_version: str
    headers: dict[str, str]
    body: Any


@dataclass
class Reply:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    after_s: float = 0


Fault = Callable[[Request], Reply | None]
"""What is answered instead of the right answer; None lets the request through."""


@dataclass
class FakeService:
    """`faults` are met by the requests of an operation one after the other: `embed`, `index`, `search`, `get`, `put`."""

    port: int
    indexes: dict[str, dict[str, Any]] = field(default_factory=dict)
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    faults: dict[str, list[Fault]] = field(default_factory=lambda: defaultdict(list))
    refused_keys: set[str] = field(default_factory=set)
    page: int = 1_000
    limit_bytes: int | None = None
    dimensions_given: int | None = None
    operators_seen: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AZURE_OPENAI_ENDPOINT": self.url,
            "AZURE_OPENAI_API_KEY": OPENAI_KEY,
            "AZURE_OPENAI_EMBED_DEPLOYMENT": "embed-small",
            "AZURE_SEARCH_ENDPOINT": self.url,
            "AZURE_SEARCH_API_KEY": KEY,
            "AZURE_SEARCH_INDEX": NAME,
        }

    def of(self, operation: str) -> list[Request]:
        return [request for request in self.requests if request.operation == operation]

    def uploads(self) -> list[str]:
        return [action["key"] for request in self.of("index") for action in request.body["value"] if len(action) > 2]

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        wanted = OPENAI_KEY if request.operation == "embed" else KEY
        if request.headers.get("api-key") != wanted:
            # A service that says the key again: nobody may see it all the same.
            return Reply(401, {"error": {"code": "401", "message": f"wrong key {request.headers.get('api-key')}"}})
        faults = self.faults[request.operation]
        if faults and (reply := faults.pop(0)(request)) is not None:
            return reply
        return {
            "embed": self._embed,
            "get": self._get,
            "put": self._put,
            "index": self._index,
            "search": self._search,
        }[request.operation](request)

    def _embed(self, request: Request) -> Reply:
        size = self.dimensions_given or request.body["dimensions"]
        data = [
            {"object": "embedding", "index": index, "embedding": vector_of(text, size)}
            for index, text in enumerate(request.body["input"])
        ]
        used = TOKENS_PER_TEXT * len(data)
        usage = {"prompt_tokens": used, "total_tokens": used}
        # The order of the answer is that of `index`, not of the list.
        return Reply(200, {"object": "list", "data": data[::-1], "model": "a-model", "usage": usage})

    def _get(self, request: Request) -> Reply:
        index = self.indexes.get(_name(request.path))
        return Reply(200, index) if index is not None else _absent()

    def _put(self, request: Request) -> Reply:
        name = _name(request.path)
        if request.headers.get("if-none-match") == "*" and name in self.indexes:
            return Reply(412, {"error": {"code": "", "message": "there is one"}})
        there = self.indexes.get(name)
        if there is not None and request.headers.get("if-match") != there["@odata.etag"]:
            return Reply(412, {"error": {"code": "", "message": "it changed"}})
        tag = f'"0x{len(self.requests)}"'
        self.indexes[name] = {**request.body, "@odata.etag": tag}
        return Reply(200 if there is not None else 201, self.indexes[name])

    def _index(self, request: Request) -> Reply:
        if _name(request.path) not in self.indexes:
            return _absent()
        size = len(json.dumps(request.body))
        if self.limit_bytes is not None and size > self.limit_bytes:
            return Reply(413, {"error": {"code": "", "message": f"{size} bytes are too many"}})
        results = [self._act(action) for action in request.body["value"]]
        return Reply(200 if all(result["status"] for result in results) else 207, {"value": results})

    def _act(self, action: dict[str, Any]) -> dict[str, Any]:
        key = action["key"]
        if key in self.refused_keys:
            return {"key": key, "status": False, "errorMessage": f"no room ({KEY})", "statusCode": 400}
        if action["@search.action"] == "delete":
            self.documents.pop(key, None)
        else:
            self.documents[key] = {name: value for name, value in action.items() if name != "@search.action"}
        return {"key": key, "status": True, "errorMessage": None, "statusCode": 201}

    def _search(self, request: Request) -> Reply:
        if _name(request.path) not in self.indexes:
            return _absent()
        body = request.body
        if body.get("search") == "*":
            return self._listed(request)
        rankings = []
        if "search" in body:
            self.operators_seen += unescaped(body["search"])
            rankings.append(self._by_words(words(body["search"]), body["searchFields"].split(",")))
        rankings += [self._by_vector(query) for query in body.get("vectorQueries", [])]
        # The service counts ranks from 0.
        found = rankings[0] if len(rankings) == 1 else reciprocal_rank_fusion(rankings, 59)
        return Reply(200, {"value": [_hit(one.chunk_id, one.score) for one in found[: body["top"]]]})

    def _listed(self, request: Request) -> Reply:
        body = request.body
        after = match[1] if (match := re.fullmatch(r"key gt '([^']*)'", body.get("filter") or "")) else ""
        keys = sorted(key for key in self.documents if key > after)[: body["top"]]
        skip = body.get("skip", 0)
        shown = keys[skip : skip + self.page]
        reply: dict[str, Any] = {
            "value": [{**_hit(key, 1.0), "digest": self.documents[key]["digest"]} for key in shown],
        }
        if skip + self.page < len(keys):
            reply["@search.nextPageParameters"] = {**body, "skip": skip + self.page}
            reply["@odata.nextLink"] = f"{self.url}/indexes('{NAME}')/docs/search.post.search?api-version=x"
        return Reply(200, reply)

    def _by_words(self, asked: set[str], fields: list[str]) -> list[Ranked]:
        scores = {
            key: float(sum(len(asked & words(document.get(name) or "")) for name in fields))
            for key, document in self.documents.items()
        }
        return _ranked({key: score for key, score in scores.items() if score})

    def _by_vector(self, query: dict[str, Any]) -> list[Ranked]:
        vector = np.array(query["vector"])
        scores = {key: float(np.dot(vector, document["vector"])) for key, document in self.documents.items()}
        return _ranked(scores)[: query["k"]]


def _ranked(scores: dict[str, float]) -> list[Ranked]:
    return [Ranked(key, scores[key]) for key in sorted(scores, key=lambda key: (-scores[key], key))]


def _hit(key: str, score: float) -> dict[str, Any]:
    return {"@search.score": score, "key": key}


def _absent() -> Reply:
    return Reply(404, {"error": {"code": "", "message": "no such index"}})


def _name(path: str) -> str:
    match = re.match(r"/indexes\('([^']+)'\)", path)
    assert match is not None, path
    return match[1]


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))


def unescaped(search: str) -> list[str]:
    """The operators of the simple syntax in a query that no backslash stands before."""
    plain = re.sub(r"\\.", "", search, flags=re.DOTALL)
    return [char for char in plain if char in OPERATORS or char == "\\"]


def vector_of(text: str, size: int) -> list[float]:
    counts = np.zeros(size)
    for word in sorted(words(text)):
        counts[zlib.crc32(word.encode()) % size] += 1
    length = np.linalg.norm(counts)
    found: list[float] = (counts / length if length else counts).tolist()
    return found


def failing(status: int, **headers: str) -> Fault:
    body = {"error": {"code": str(status), "message": f"not now, {KEY} and {OPENAI_KEY}"}}
    return lambda request: Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def slow(seconds: float) -> Fault:
    return lambda request: Reply(200, {}, after_s=seconds)


@contextmanager
def running() -> Iterator[FakeService]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._serve()

        def do_PUT(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            path = unquote(parts.path)
            request = Request(
                _operation(self.command, path),
                self.command,
                path,
                parse_qs(parts.query)["api-version"][0],
                {name.lower(): value for name, value in self.headers.items()},
                body,
            )
            reply = service.answer(request)
            time.sleep(reply.after_s)
            payload = json.dumps(reply.body).encode()
            try:
                self.send_response(reply.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(payload)
            except OSError:  # the client lost its patience
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service = FakeService(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _operation(method: str, path: str) -> str:
    if path.endswith("/embeddings"):
        return "embed"
    if path.endswith("/docs/search.index"):
        return "index"
    if path.endswith("/docs/search.post.search"):
        return "search"
    return {"GET": "get", "PUT": "put"}[method]
