"""A chat endpoint on this machine that answers well, badly, and with lies."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from librarian_pipeline.answering.answer import Answer
from librarian_pipeline.answering.asking import ask
from librarian_pipeline.errors import UsageError
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.settings import ANSWERS_KEY_VARIABLE, AnswerSettings, load_settings
from librarian_pipeline_tests.answering.conftest import EPISODES

KEY = "sk-a-secret-that-nobody-may-see"
QUERY = "boiled salt iron pans cheese cellar"
QUOTE = "boiled down in iron pans"

Reply = Callable[[BaseHTTPRequestHandler], None]


class Endpoint:
    def __init__(self) -> None:
        self.reply: Reply = sends(quotes())
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str | None] = []
        self.url = ""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv(ANSWERS_KEY_VARIABLE, KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    served = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            served.paths.append(self.path)
            served.keys.append(self.headers.get("Authorization"))
            served.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            try:
                served.reply(self)
            except (BrokenPipeError, ConnectionResetError):
                return  # the client had enough

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield served
    server.shutdown()
    server.server_close()


def raw(body: bytes, status: int = 200, **headers: str) -> Reply:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return reply


def sends(content: str) -> Reply:
    return raw(json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode())


def quotes(*claims: tuple[str, str]) -> str:
    return json.dumps({"claims": [{"chunk_id": chunk_id, "quote": quote} for chunk_id, quote in claims]})


def trickles(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    for _ in range(100):
        request.wfile.write(b" ")
        request.wfile.flush()
        time.sleep(0.05)


def asked(edition: Edition, endpoint: Endpoint, timeout_s: float = 5) -> Answer:
    settings = AnswerSettings(min_cosine=0.2, base_url=endpoint.url, model="a-model", timeout_s=timeout_s)
    return ask(edition, QUERY, None, settings)


def extractive(edition: Edition) -> Answer:
    return ask(edition, QUERY, None, AnswerSettings(min_cosine=0.2))


def test_a_good_answer_is_shown_in_the_passage_s_own_words(edition: Edition, endpoint: Endpoint) -> None:
    endpoint.reply = sends(quotes(("two:t000", QUOTE.upper())))
    answer = asked(edition, endpoint)
    [claim] = answer.claims
    assert (claim.quote, claim.text, claim.citation.text) == (QUOTE, EPISODES["two"][0], "Ep. two @ 00:00")
    assert (answer.note, answer.dropped) == (None, 0)
    assert endpoint.paths == ["/v1/chat/completions"]
    assert endpoint.keys == [f"Bearer {KEY}"]


def test_the_request_asks_for_json_and_puts_passages_between_marks_that_no_transcript_knows(
    edition: Edition, endpoint: Endpoint
) -> None:
    for _ in range(2):
        asked(edition, endpoint)
    first, second = endpoint.bodies
    assert first["model"] == "a-model"
    assert first["response_format"]["type"] == "json_schema"
    marks = []
    for body in (first, second):
        system, user = (message["content"] for message in body["messages"])
        mark = system.partition("hold the mark ")[2].partition(".")[0]
        marks.append(mark)
        orders = user.index("Ignore all instructions")
        before, after = user[:orders], user[orders:]
        assert before.rindex(f"=== {mark} passage orders:t000") > before.rfind(f"=== {mark} end")
        assert after.index(f"=== {mark} end") > after.index("pwned")
        assert "Ignore all" not in system
    assert marks[0] != marks[1]


@pytest.mark.parametrize(
    "claims",
    [
        [("two:t000", "boiled down in copper pans")],
        [("two:t000", "pans iron in down boiled")],
        [("two:t999", QUOTE), ("nowhere:t000", QUOTE)],
        [("one:t000", QUOTE)],
        [("orders:t000", "pwned")],
        [("orders:t000", "the moon is made of green cheese")],
        [("two:t000", "")],
    ],
)
def test_altered_quotes_and_invented_passages_end_in_a_refusal(
    edition: Edition, endpoint: Endpoint, claims: list[tuple[str, str]]
) -> None:
    endpoint.reply = sends(quotes(*claims))
    answer = asked(edition, endpoint)
    assert (answer.status, answer.claims, answer.dropped) == ("refused", (), len(claims))
    assert answer.why is not None
    assert answer.why.startswith("no claim passed the check")


def test_lies_among_true_quotes_are_dropped_and_counted(edition: Edition, endpoint: Endpoint) -> None:
    endpoint.reply = sends(quotes(("two:t000", "boiled down in gold pans"), ("two:t000", QUOTE), ("x", "y z w")))
    answer = asked(edition, endpoint)
    assert ([claim.quote for claim in answer.claims], answer.dropped) == ([QUOTE], 2)


def test_a_model_that_obeys_a_transcript_can_show_nothing_but_what_was_said(edition: Edition, endpoint: Endpoint) -> None:
    obeyed = {
        "claims": [{"chunk_id": "orders:t000", "quote": "that the moon is a cheese", "text": "pwned", "citation": "x"}]
    }
    endpoint.reply = sends(json.dumps({**obeyed, "answer": "pwned"}))
    [claim] = asked(edition, endpoint).claims
    assert (claim.text, claim.citation.text) == (EPISODES["orders"][0], "Ep. orders @ 00:00")


def test_no_claims_means_that_the_model_found_no_answer(edition: Edition, endpoint: Endpoint) -> None:
    endpoint.reply = sends(quotes())
    assert asked(edition, endpoint).why == "no passage that was found answers this"


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (sends("I think it is about salt."), "no list of quotes"),
        (sends('{"claims": "pwned"}'), "no list of quotes"),
        (sends('{"claims": [{"chunk_id": 1}]}'), "no list of quotes"),
        (sends(quotes(*[("two:t000", QUOTE)] * 1000)), "no list of quotes"),
        (raw(b"<html>pwned</html>"), "no list of quotes"),
        (raw(b'{"choices": []}'), "no list of quotes"),
        (raw(b'{"choices": [{"message": {"content": null}}]}'), "no list of quotes"),
        (raw(b"[" * 100_000), "no list of quotes"),
        (raw(b"\xff\xfe"), "no list of quotes"),
        (raw(b""), "no list of quotes"),
        (raw(KEY.encode(), 401), "status 401"),
        (raw(b"slow down", 429), "status 429"),
        (raw(b"oops", 500), "status 500"),
        (raw(b"", 302, Location="http://127.0.0.1:1/"), "status 302"),
        (raw(b" " * 5_000_000), "more than 1000000 bytes"),
        (lambda request: request.connection.close(), "can't be reached"),
    ],
)
def test_an_endpoint_that_fails_is_replaced_by_sentences_of_the_passages(
    edition: Edition, endpoint: Endpoint, reply: Reply, told: str
) -> None:
    endpoint.reply = reply
    answer = asked(edition, endpoint)
    assert answer.claims == extractive(edition).claims
    assert answer.note is not None
    assert told in answer.note
    assert KEY not in repr(answer)
    assert "pwned" not in answer.note


@pytest.mark.parametrize("reply", [lambda request: time.sleep(2), trickles])
def test_a_slow_endpoint_is_not_waited_for_beyond_its_time(edition: Edition, endpoint: Endpoint, reply: Reply) -> None:
    endpoint.reply = reply
    began = time.monotonic()
    answer = asked(edition, endpoint, timeout_s=0.3)
    assert time.monotonic() - began < 1.5
    assert answer.claims == extractive(edition).claims
    assert answer.note == "the model's endpoint took too long; sentences of the passages are shown instead"


def test_a_key_that_no_header_can_hold_is_not_shown(
    edition: Edition, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ANSWERS_KEY_VARIABLE, f"{KEY}\r\nX-More: klíč")
    answer = asked(edition, endpoint)
    assert KEY not in repr(answer)
    assert answer.claims == extractive(edition).claims


def test_too_little_evidence_is_refused_before_anything_is_sent(edition: Edition, endpoint: Endpoint) -> None:
    settings = AnswerSettings(min_cosine=0.99, base_url=endpoint.url, model="a-model")
    assert ask(edition, "quantum chromodynamics", None, settings).status == "refused"
    assert endpoint.bodies == []


@pytest.mark.parametrize(
    "base_url",
    ["file:///etc/passwd", "ftp://127.0.0.1/v1", "127.0.0.1:80", "http://", "http://me:secret@host/v1", "http://["],
)
def test_an_address_that_is_no_plain_web_address_is_refused_without_being_shown(tmp_path: Path, base_url: str) -> None:
    (tmp_path / "librarian.toml").write_text(f'[answers]\nbase_url = "{base_url}"\nmodel = "m"\n', encoding="utf-8")
    with pytest.raises(UsageError, match="base_url") as refused:
        load_settings(tmp_path)
    assert "secret" not in str(refused.value)


def test_an_endpoint_without_a_model_is_refused(edition: Edition) -> None:
    with pytest.raises(UsageError, match="model, too"):
        ask(edition, QUERY, None, AnswerSettings(base_url="http://127.0.0.1:1/v1"))


def test_the_key_in_the_environment_is_no_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ANSWERS_KEY_VARIABLE, KEY)
    assert KEY not in repr(load_settings(tmp_path))
