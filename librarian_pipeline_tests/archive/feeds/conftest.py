from collections.abc import Iterator

import pytest

from librarian_pipeline_tests.archive.feeds import loopback


@pytest.fixture
def server() -> Iterator[loopback.Loopback]:
    with loopback.running() as running:
        yield running


@pytest.fixture
def other_server() -> Iterator[loopback.Loopback]:
    """Another host, as far as credentials go: the port differs."""
    with loopback.running() as running:
        yield running
