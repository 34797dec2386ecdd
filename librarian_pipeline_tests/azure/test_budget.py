import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.azure.budget import Estimate, estimate, require_within, tokens_of
from librarian_pipeline.azure.stack import AzureStack
from librarian_pipeline.errors import UsageError
from librarian_pipeline.settings import AzureSettings, change_settings
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.azure.fake_service import TOKENS_PER_TEXT, FakeService


def silent(_: object) -> None:
    return None


def with_settings(workspace: Workspace, **changes: object) -> Workspace:
    named = {f"azure.{name}": value for name, value in changes.items()}
    return Workspace(workspace.home, change_settings(workspace.settings, named, "the test"))


@given(st.lists(st.text()))
def test_the_estimate_is_the_sum_over_the_texts(texts: list[str]) -> None:
    found = estimate(len(texts), texts, AzureSettings())
    assert found.tokens == sum(tokens_of(text) for text in texts)


def test_the_cost_is_told_for_a_price_and_not_without() -> None:
    assert estimate(1, ["x" * 4_000], AzureSettings(price_per_1000_tokens=0.5)).cost == pytest.approx(1.0)
    unpriced = estimate(1, ["x" * 4_000], AzureSettings())
    assert unpriced.cost is None
    assert "price_per_1000_tokens" in unpriced.line


@pytest.mark.parametrize(
    "settings",
    [
        AzureSettings(max_documents=1),
        AzureSettings(max_tokens=3),
        AzureSettings(price_per_1000_tokens=1_000, max_cost=3),
    ],
    ids=["documents", "tokens", "cost"],
)
def test_above_each_limit_it_is_refused(settings: AzureSettings) -> None:
    with pytest.raises(UsageError, match=r"\[azure\] max_"):
        require_within(estimate(2, ["12345678"], settings), settings)


def test_at_the_limits_it_is_not() -> None:
    settings = AzureSettings(max_documents=2, max_tokens=4, price_per_1000_tokens=1_000, max_cost=4)
    require_within(estimate(2, ["12345678"], settings), settings)


@pytest.mark.parametrize("limit", [{"max_documents": 1}, {"max_tokens": 1}], ids=["documents", "tokens"])
def test_the_estimate_is_told_and_nothing_is_sent_above_it(
    workspace: Workspace, service: FakeService, limit: dict[str, object]
) -> None:
    told: list[object] = []
    with pytest.raises(UsageError):
        AzureStack(with_settings(workspace, **limit)).update(told.append)
    assert len(told) == 1
    assert {request.operation for request in service.requests} == {"get"}


def test_the_estimate_comes_before_anything_is_sent(workspace: Workspace, service: FakeService) -> None:
    sent_before: list[set[str]] = []
    AzureStack(workspace).update(lambda found: sent_before.append({one.operation for one in service.requests}))
    assert sent_before == [{"get"}]


@pytest.mark.parametrize(
    "limit",
    [{"max_tokens": 3 * TOKENS_PER_TEXT}, {"price_per_1000_tokens": 1_000.0, "max_cost": 3.0 * TOKENS_PER_TEXT}],
    ids=["tokens", "cost"],
)
def test_what_the_service_counts_is_held_against_the_limit_too(
    workspace: Workspace, service: FakeService, monkeypatch: pytest.MonkeyPatch, limit: dict[str, object]
) -> None:
    """The estimate may be wrong: of texts in a script with many bytes it isn't, of others who knows."""
    monkeypatch.setattr("librarian_pipeline.azure.budget.BYTES_PER_TOKEN", 1_000_000)
    limited = AzureStack(with_settings(workspace, **limit))
    with pytest.raises(UsageError, match="used up: what was uploaded is kept"):
        limited.update(silent)
    assert len(service.of("embed")) == 1
    assert len(service.documents) == 3


def test_the_queries_are_estimated_and_refused_before_one_is_embedded(workspace: Workspace, service: FakeService) -> None:
    AzureStack(workspace).update(silent)
    service.requests.clear()
    told: list[Estimate] = []
    with pytest.raises(UsageError, match="max_tokens"):
        AzureStack(with_settings(workspace, max_tokens=1)).evaluate(told.append)
    assert [found.texts for found in told] == [2]
    assert service.requests == []


def test_a_limit_on_cost_needs_a_price() -> None:
    with pytest.raises(ValueError, match="price_per_1000_tokens"):
        AzureSettings(max_cost=1)
