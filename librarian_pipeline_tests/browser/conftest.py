"""Debian's Chromium, without a window, on the pages of a small archive: those of Dagster's UI, and our own."""

import re
import shutil
from collections.abc import Generator, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from librarian_pipeline_tests.conftest import REPOSITORY
from librarian_pipeline_tests.ui_server import Ui, derived_archive, serving

PATIENCE_MS = 30_000
SCREENSHOTS = REPOSITORY / "build" / "screenshots"
LOOPBACK = "127.0.0.1"
NO_OTHER_HOST = f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {LOOPBACK}"
"""Chromium finds no other host than this one: what a page asks of others is seen, and goes nowhere."""

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    home = derived_archive(tmp_path_factory.mktemp("browser"))
    with serving(home, home / "ui.log") as found:
        yield found


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program, "install the Debian package `chromium`"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[NO_OTHER_HOST])
        yield browser
        browser.close()


@pytest.fixture
def asked_of_others() -> list[str]:
    """What the page of this test has asked of other hosts than this one."""
    return []


@pytest.fixture
def page(ui: Ui, chromium: Browser, asked_of_others: list[str]) -> Iterator[Page]:
    """A new page, as of a person who never was here. Its addresses are those on `ui`."""
    yield from new_page(chromium, asked_of_others, base_url=ui.address, viewport={"width": 1600, "height": 1000})


def new_page(chromium: Browser, asked_of_others: list[str], **options: Any) -> Iterator[Page]:
    """A page in a context of its own with these options; what it asks of other hosts is added to the list."""
    context = chromium.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)

    def note(address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("blob", "data") and parts.hostname != LOOPBACK:
            asked_of_others.append(address)

    page = context.new_page()
    context.on("request", lambda request: note(request.url))
    page.on("websocket", lambda socket: note(socket.url))
    yield page
    context.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keeps a picture of the page on which a test failed."""
    report = yield
    page = getattr(item, "funcargs", {}).get("page")
    if report.when == "call" and report.failed and page is not None:
        picture = SCREENSHOTS / f"{re.sub(r'[^A-Za-z0-9]+', '_', item.name).strip('_')}.png"
        try:
            page.screenshot(path=picture)
            told = str(picture)
        except Error as error:  # the browser itself may be what failed
            told = f"no picture: {error}"
        report.sections.append(("the page", told))
    return report
