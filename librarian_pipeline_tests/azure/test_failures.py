"""What goes wrong with the services is one clear line that says what to do, and holds no key."""

import logging
import traceback
from collections.abc import Callable

import pytest

from librarian_pipeline.azure.failures import ServiceError
from librarian_pipeline.azure.stack import AzureStack
from librarian_pipeline.errors import LibrarianError
from librarian_pipeline.settings import change_settings
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.azure.fake_service import KEY, OPENAI_KEY, FakeService, failing, slow

OPERATIONS = ("get", "put", "embed", "index", "search")


def impatient(workspace: Workspace, **changes: object) -> AzureStack:
    named = {f"azure.{name}": value for name, value in changes.items()}
    return AzureStack(Workspace(workspace.home, change_settings(workspace.settings, named, "the test")))


def bring_and_search(stack: AzureStack) -> None:
    stack.update(lambda found: None)
    stack.searcher().search("salt", "azure_bm25")


def line_of(run: Callable[[], object]) -> str:
    """The one line; and nothing in it, in what stands behind it, or in the log, is a key."""
    with pytest.raises(LibrarianError) as caught:
        run()
    behind = "".join(traceback.format_exception(caught.value))
    for text in (str(caught.value), repr(caught.value), behind):
        assert KEY not in text
        assert OPENAI_KEY not in text
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_asked_again_after_as_long_as_it_says(
    stack: AzureStack, service: FakeService, operation: str, status: int
) -> None:
    service.faults[operation] += [failing(status, Retry_After="0.05"), failing(status, retry_after_ms="10")]
    bring_and_search(stack)
    assert service.faults[operation] == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_service_that_stays_busy_is_told(workspace: Workspace, service: FakeService, operation: str) -> None:
    service.faults[operation] += [failing(429, Retry_After="0.01")] * 2
    assert "too busy (429)" in line_of(lambda: bring_and_search(impatient(workspace, retries=1)))
    assert service.faults[operation] == []


@pytest.mark.parametrize("operation", ["index", "embed"])
def test_a_wait_of_hours_is_not_waited(workspace: Workspace, service: FakeService, operation: str) -> None:
    service.faults[operation].append(failing(429, Retry_After="7200"))
    assert "asks to wait 7200 s" in line_of(lambda: bring_and_search(impatient(workspace)))


@pytest.mark.parametrize(
    ("operation", "who"), [("get", "AI Search"), ("put", "AI Search"), ("embed", "OpenAI"), ("index", "AI Search")]
)
def test_an_answer_that_does_not_come_is_given_up(
    workspace: Workspace, service: FakeService, operation: str, who: str
) -> None:
    service.faults[operation].append(slow(0.6))
    line = line_of(lambda: bring_and_search(impatient(workspace, timeout_s=0.2, retries=0)))
    assert f"Azure {who} did not answer in time" in line
    assert "timeout_s" in line


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_answer_that_comes_the_second_time_is_enough(workspace: Workspace, service: FakeService, operation: str) -> None:
    service.faults[operation].append(slow(0.6))
    bring_and_search(impatient(workspace, timeout_s=0.3, retries=1))
    assert len(service.of(operation)) > 1


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("status", [401, 403])
def test_a_login_that_is_refused_names_the_variable(
    stack: AzureStack, service: FakeService, operation: str, status: int
) -> None:
    service.faults[operation].append(failing(status))
    variable = "AZURE_OPENAI_API_KEY" if operation == "embed" else "AZURE_SEARCH_API_KEY"
    line = line_of(lambda: bring_and_search(stack))
    assert f"refuses the login ({status})" in line
    assert variable in line


@pytest.mark.parametrize("name", ["AZURE_OPENAI_API_KEY", "AZURE_SEARCH_API_KEY"])
def test_a_wrong_key_that_the_service_says_again_is_in_no_error(
    workspace: Workspace, service: FakeService, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "a-wrong-key-0123456789")
    line = line_of(lambda: bring_and_search(AzureStack(workspace)))
    assert "a-wrong-key-0123456789" not in line
    assert name in line


def test_a_deployment_that_is_not_there_is_told(stack: AzureStack, service: FakeService) -> None:
    service.faults["embed"].append(failing(404))
    assert "there is no deployment 'embed-small'" in line_of(lambda: bring_and_search(stack))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_any_other_answer_is_told_without_what_must_not_be_seen(
    stack: AzureStack, service: FakeService, operation: str
) -> None:
    service.faults[operation].append(failing(400))
    line = line_of(lambda: bring_and_search(stack))
    assert "answers 400" in line
    assert "***" in line


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_log_at_any_level_shows_a_key(
    stack: AzureStack, service: FakeService, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    service.faults[operation].append(failing(429, Retry_After="0.01"))
    with caplog.at_level(logging.DEBUG):
        bring_and_search(stack)
    assert caplog.records
    assert KEY not in caplog.text
    assert OPENAI_KEY not in caplog.text


@pytest.mark.parametrize("name", ["AZURE_OPENAI_ENDPOINT", "AZURE_SEARCH_ENDPOINT"])
def test_a_service_that_is_not_there_names_its_address(
    workspace: Workspace, service: FakeService, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    line = line_of(lambda: bring_and_search(impatient(workspace, retries=0)))
    assert "127.0.0.1:9 can't be reached" in line
    assert name in line


def test_a_run_that_failed_is_finished_by_the_next(stack: AzureStack, service: FakeService) -> None:
    service.faults["embed"] += [lambda request: None, failing(400)]
    with pytest.raises(ServiceError):
        stack.update(lambda found: None)
    stack.update(lambda found: None)
    assert stack.searcher().search("salt", "azure_bm25")
