"""The pages as a browser gets them: what they show, and what they refuse."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.web.pages import MAX_QUERY_CHARACTERS
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.pipeline.small_archive import add_notes
from librarian_pipeline_tests.pipeline.updating import bring
from librarian_pipeline_tests.web.archive import HEARD, HOSTILE, LONG, MATCH, MATCH_S
from librarian_pipeline_tests.web.conftest import PORT, client_of

OWN_TAGS = {
    *("html", "head", "meta", "title", "link", "script", "body", "header", "main", "footer", "nav", "h1", "h2", "p", "a"),
    *("form", "div", "label", "input", "select", "option", "button", "ol", "ul", "li", "span", "mark", "audio"),
}


class Parsed(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def read(client: TestClient, path: str, status: int = 200) -> Parsed:
    response = client.get(path)
    assert response.status_code == status, response.text
    return Parsed(response.text)


def links(page: Parsed) -> list[str]:
    return [str(attributes["href"]) for attributes in page.all("a")]


def served(home: Path) -> str:
    return str(Workspace.open(home).snapshots.current_id())


# Shown


def test_a_search_shows_marks_the_citation_and_the_moment_to_listen_from(client: TestClient) -> None:
    page = read(client, f"/search?q={quote(MATCH)}&mode=bm25_stem")
    assert f"1. Ep. {HEARD} @ 00:{MATCH_S}" in page.text
    assert f"/audio/{HEARD}#t={MATCH_S}" in links(page)
    source = client.get("/search", params={"q": MATCH, "mode": "bm25_stem"}).text
    assert "An <mark>owl</mark> hears a <mark>mouse</mark> under the <mark>snow</mark>." in source


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_can_be_chosen_and_stays_chosen(mode: str, client: TestClient) -> None:
    page = read(client, f"/search?q=owl&mode={mode}")
    assert [option["value"] for option in page.all("option") if "selected" in option] == [mode]


def test_every_page_names_the_snapshot_it_was_read_from(client: TestClient, home: Path) -> None:
    for path in ("/", "/search?q=owl", f"/passages/{HEARD}:t002", f"/episodes/{HEARD}"):
        assert f"Published index: {served(home)}" in read(client, path).text


def test_the_home_page_lists_the_catalogue(client: TestClient) -> None:
    page = read(client, "/")
    assert [f"/episodes/{id}" for id in (HEARD, HOSTILE, LONG)] == [link for link in links(page) if "episodes" in link]
    assert "Owls & <b>bells</b>" in page.text


def test_a_passage_stands_between_its_neighbours_and_is_the_one_marked(client: TestClient) -> None:
    page = read(client, f"/passages/{LONG}:t010?q=evening")
    shown = [(item["id"], item.get("aria-current")) for item in page.all("li")]
    assert shown == [(f"{LONG}:t{n:03}", "true" if n == 10 else None) for n in range(8, 13)]
    assert "/search?q=evening" in links(page)


def test_a_passage_found_by_a_query_begins_to_play_at_the_cited_second(client: TestClient) -> None:
    found = read(client, f"/search?q={quote(MATCH)}&mode=bm25_stem")
    page = read(client, next(link for link in links(found) if link.startswith(f"/passages/{HEARD}:t")))
    assert [audio["src"] for audio in page.all("audio")] == [f"/audio/{HEARD}#t={MATCH_S}"]


def test_the_pages_of_an_episode_have_all_its_passages_in_time_order(client: TestClient) -> None:
    found: list[str] = []
    path: str | None = f"/episodes/{LONG}"
    while path is not None:
        page = read(client, path)
        found += re.findall(r"@ (\d\d:\d\d)", page.text)
        path = next((str(link["href"]) for link in page.all("a") if link.get("rel") == "next"), None)
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == ("00:00", "06:32")


def test_the_link_from_a_passage_leads_to_the_page_of_the_episode_that_holds_it(client: TestClient) -> None:
    page = read(client, f"/passages/{LONG}:t030")
    target = next(link for link in links(page) if link.startswith(f"/episodes/{LONG}"))
    assert f"{LONG}:t030" in [item["id"] for item in read(client, target.partition("#")[0]).all("li")]


def test_texts_say_their_language_and_fields_have_labels(client: TestClient) -> None:
    page = read(client, f"/search?q={quote(MATCH)}")
    assert page.all("html") == [{"lang": "en"}]
    assert next(text["lang"] for text in page.all("p") if text.get("class") == "text") == "en"
    assert {label["for"] for label in page.all("label")} == {"q", "mode"}
    assert len(page.all("h1")) == 1


# Hostile text


@pytest.mark.parametrize(
    "path", ["/", "/search?q=zanzibar&mode=bm25_raw", f"/episodes/{HOSTILE}", f"/passages/{HOSTILE}:t000"]
)
def test_what_an_archive_says_is_text(path: str, client: TestClient) -> None:
    page = read(client, path)
    assert {tag for tag, _ in page.elements} <= OWN_TAGS
    assert len(page.all("script")) == 1
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert not set("\u202e\u202c\u2066\u2069\x1b") & set(page.text)


def test_hostile_text_is_there_to_be_read(client: TestClient) -> None:
    assert "<script>window.hurt = 1</script>" in read(client, f"/episodes/{HOSTILE}").text


@given(
    query=st.text(min_size=1, max_size=40)
    | st.sampled_from(['"><script>alert(1)</script>', "' onfocus=x '", "\x1b[31m", "\u202e"])
)
def test_a_query_is_shown_as_text_and_breaks_nothing(query: str, client: TestClient) -> None:
    response = client.get("/search", params={"q": query.encode("utf-8", "replace").decode(), "mode": "bm25_raw"})
    assert response.status_code == (200 if query.strip() else 400)
    page = Parsed(response.text)
    assert {tag for tag, _ in page.elements} <= OWN_TAGS
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


# Refused


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/search?q=", 400, "blank"),
        ("/search?q=x&mode=lucene", 400, ", ".join(MODES)),
        (f"/search?q={'x' * (MAX_QUERY_CHARACTERS + 1)}", 400, f"at most {MAX_QUERY_CHARACTERS}"),
        ("/passages/ep99:t000", 404, "no such passage"),
        ("/episodes/ep99", 404, "no such episode"),
        (f"/episodes/{LONG}?page=0", 404, "pages 1 to 3"),
        (f"/episodes/{LONG}?page=99999999999", 404, "pages 1 to 3"),
        (f"/episodes/{LONG}?page=-1", 404, "pages 1 to 3"),
        ("/nothing", 404, "Not Found"),
    ],
)
def test_what_cannot_be_shown_is_said(path: str, status: int, said: str, client: TestClient) -> None:
    assert said in read(client, path, status).text


def test_a_page_about_no_snapshot_tells_nothing_of_the_index(client: TestClient, tmp_path: Path) -> None:
    assert "Published index" not in read(client, "/nothing", 404).text
    assert "Published index" not in read(client_of(tmp_path), "/", 503).text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_reading_is_possible(method: str, client: TestClient) -> None:
    assert client.request(method, "/search?q=x").status_code == 405


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        f"127.0.0.1:{PORT}0",
        f"127.0.0.1:{PORT}.evil.example",
        f"LOCALHOST.:{PORT}",
    ],
)
def test_who_asks_for_another_host_is_turned_away(host: str, client: TestClient) -> None:
    response = client.get("/search?q=owl", headers={"Host": host})
    assert (response.status_code, "owl" in response.text) == (421, False)


@pytest.mark.parametrize("path", ["/", "/nothing", "/search?q=", f"/audio/{HEARD}", "/static/style.css"])
def test_every_answer_forbids_other_hosts_and_scripts_in_the_page(path: str, client: TestClient) -> None:
    policy = client.get(path).headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy
    assert "http" not in policy


# Audio


@pytest.mark.parametrize(
    ("asked", "start", "stop"), [("bytes=100-199", 100, 200), ("bytes=-50", -50, None), ("bytes=1000-", 1000, None)]
)
def test_a_range_of_the_recording_is_served_as_one(
    asked: str, start: int, stop: int | None, client: TestClient, home: Path
) -> None:
    whole = (home / "audio" / f"{HEARD}.opus").read_bytes()
    response = client.get(f"/audio/{HEARD}", headers={"Range": asked})
    assert (response.status_code, response.content) == (206, whole[start:stop])
    assert client.get(f"/audio/{HEARD}").content == whole


def test_a_range_beyond_the_recording_is_refused(client: TestClient) -> None:
    assert client.get(f"/audio/{HEARD}", headers={"Range": "bytes=99999999-"}).status_code == 416


@pytest.mark.parametrize(
    "name",
    [LONG, "ep99", "..%2Flibrarian.toml", "%2e%2e", "heard.opus", "heard%00", "heard%0a", "..%2faudio%2fheard", "HEARD"],
)
def test_nothing_but_recordings_of_episodes_is_served(name: str, client: TestClient) -> None:
    assert client.get(f"/audio/{name}").status_code == 404


def test_a_recording_that_is_not_in_the_catalogue_is_not_served(own_home: Path) -> None:
    shutil.copy2(own_home / "audio" / f"{HEARD}.opus", own_home / "audio" / "later.opus")
    assert client_of(own_home).get("/audio/later").status_code == 404


def test_a_link_out_of_the_archive_is_not_followed(own_home: Path, tmp_path: Path) -> None:
    path = own_home / "audio" / f"{HEARD}.opus"
    path.rename(tmp_path / "outside.opus")
    path.symlink_to(tmp_path / "outside.opus")
    client = client_of(own_home)
    assert client.get(f"/audio/{HEARD}").status_code == 404
    assert read(client, f"/episodes/{HEARD}").all("audio") == []


# The state of the archive


def test_before_the_first_publication_the_page_says_what_to_do(tmp_path: Path) -> None:
    tmp_path.joinpath("archive").mkdir()
    page = read(client_of(tmp_path / "archive"), "/", 503)
    assert "there is no published index yet" in page.text
    assert "librarian run" in page.text


def test_a_publication_is_taken_up_by_the_next_request(own_home: Path) -> None:
    client, before = client_of(own_home), served(own_home)
    assert before in read(client, "/").text
    add_notes(own_home, LONG, "A quagga stood in the yard.")
    assert bring(own_home).errors == {}
    page = read(client, "/search?q=quagga&mode=bm25_raw")
    assert served(own_home) != before
    assert served(own_home) in page.text
    assert "1 passage," in page.text


def test_a_damaged_snapshot_is_warned_of_while_the_one_before_is_served(own_home: Path) -> None:
    before = served(own_home)
    add_notes(own_home, LONG, "A quagga stood in the yard.")
    assert bring(own_home).errors == {}
    (own_home / "published" / served(own_home) / "manifest.json").unlink()
    page = read(client_of(own_home), "/")
    assert f"Warning: the snapshot {served(own_home)} is damaged" in page.text
    assert f"Published index: {before}" in page.text
