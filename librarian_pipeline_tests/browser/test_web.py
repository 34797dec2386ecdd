"""The local web page as a person uses it."""

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, expect

from librarian_pipeline_tests.browser.conftest import new_page
from librarian_pipeline_tests.conftest import environment
from librarian_pipeline_tests.web.archive import HEARD, HOSTILE, MATCH, MATCH_S, web_archive

PATIENCE_S = 60
COMMAND = "from librarian_pipeline.cli import main; main()"
TIME = "document.querySelector('audio').currentTime"
IS_READY = "document.querySelector('audio').readyState >= 1 && !document.querySelector('audio').seeking"


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the web page on a small archive."""
    home = web_archive(tmp_path_factory.mktemp("web") / "archive")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "web", "--home", home, "--port", str(port)], env=environment()
    )
    try:
        _wait_for(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_for(address: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None
        try:
            urlopen(address, timeout=5).close()
        except OSError:
            time.sleep(0.2)  # not listening yet
        else:
            return
    raise AssertionError("nothing listens")


@pytest.fixture
def page(web: str, chromium: Browser, asked_of_others: list[str]) -> Iterator[Page]:
    yield from new_page(chromium, asked_of_others, base_url=web, viewport={"width": 1100, "height": 800})


@pytest.fixture
def scriptless_page(web: str, chromium: Browser, asked_of_others: list[str]) -> Iterator[Page]:
    yield from new_page(chromium, asked_of_others, base_url=web, java_script_enabled=False)


def search_for(page: Page, query: str, mode: str = "bm25_stem") -> None:
    page.goto("/")
    page.get_by_label("Search the archive").fill(query)
    page.get_by_label("Mode").select_option(mode)
    page.get_by_role("button", name="Search").click()


def wait_until(page: Page, condition: str) -> None:
    """Asks again and again: what waits inside the page needs `eval`, which the page forbids."""
    deadline = time.monotonic() + PATIENCE_S
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(50)


def open_first(page: Page) -> None:
    page.get_by_role("listitem").first.get_by_role("link", name="Read in context").click()


def test_what_is_searched_is_found_marked_and_can_be_shared(page: Page) -> None:
    search_for(page, MATCH)
    expect(page).to_have_url(re.compile(r"/search\?q=owl\+mouse\+snow&mode=bm25_stem$"))
    first = page.get_by_role("listitem").first
    expect(first.get_by_role("heading")).to_have_text(f"1. Ep. {HEARD} @ 00:{MATCH_S}")
    expect(first.locator("mark")).to_have_text(["owl", "mouse", "snow"])


def test_the_keyboard_is_enough_to_search_and_to_open_a_passage(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.get_by_label("Search the archive").focus()
    page.keyboard.type(MATCH)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Read in context").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("[aria-current=true]")).to_have_count(1)


def test_a_passage_is_marked_among_its_neighbours_and_the_recording_stands_at_the_cited_second(page: Page) -> None:
    search_for(page, MATCH)
    open_first(page)
    expect(page.locator("[aria-current=true]")).to_contain_text("An owl hears a mouse under the snow.")
    assert page.get_by_role("listitem").count() > 1
    wait_until(page, IS_READY)
    assert page.evaluate(TIME) == pytest.approx(MATCH_S, abs=0.5)


def test_a_link_to_a_moment_plays_on_from_there_on_the_same_page(page: Page) -> None:
    search_for(page, MATCH)
    open_first(page)
    wait_until(page, IS_READY)
    address = page.url
    link = page.get_by_role("link", name="Listen from").first
    second = float(link.get_attribute("data-seconds") or "nan")
    assert second + 5 < MATCH_S  # back: nothing but a jump leads there
    link.click()
    wait_until(page, f"{TIME} > {second} && {TIME} < {second} + 5 && !document.querySelector('audio').paused")
    assert page.url == address


@pytest.mark.parametrize(
    "path",
    [f"/episodes/{HOSTILE}", "/search?q=zanzibar&mode=bm25_raw", "/search?q=%3Cscript%3Ewindow.hurt%3D3%3C/script%3E"],
)
def test_hostile_text_does_not_run_and_asks_nothing_of_others(path: str, page: Page, asked_of_others: list[str]) -> None:
    page.goto(path, wait_until="networkidle")
    expect(page.locator("main")).to_contain_text("<script>window")
    assert page.evaluate("window.hurt") is None
    assert asked_of_others == []


def test_a_script_in_the_page_would_not_run(page: Page) -> None:
    page.goto("/")
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.hurt = 4'}))")
    assert page.evaluate("window.hurt") is None


@pytest.mark.parametrize("path", ["/", f"/episodes/{HEARD}", f"/passages/{HEARD}:t002?q=owl"])
def test_no_page_asks_anything_of_another_host_or_breaks_its_own_rules(
    path: str, page: Page, asked_of_others: list[str]
) -> None:
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(path, wait_until="networkidle")
    assert (asked_of_others, complaints) == ([], [])


def test_without_javascript_people_search_read_and_listen_from_the_second(scriptless_page: Page) -> None:
    search_for(scriptless_page, MATCH)
    open_first(scriptless_page)
    expect(scriptless_page.locator("[aria-current=true]")).to_contain_text("An owl hears a mouse")
    assert scriptless_page.locator("audio").get_attribute("src") == f"/audio/{HEARD}#t={MATCH_S}"
    scriptless_page.get_by_role("link", name="All of episode").click()
    link = scriptless_page.get_by_role("link", name="Listen from").first
    assert re.fullmatch(rf"/audio/{HEARD}#t=\d+", link.get_attribute("href") or "")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", f"/episodes/{HEARD}", "/search?q=owl"])
def test_nothing_is_cut_off_on_a_narrow_screen(path: str, scheme: str, page: Page) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
