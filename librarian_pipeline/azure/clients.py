"""The clients of the two services, with time-outs, patience within bounds, and a login by key or by identity."""

from typing import Any

from azure.core.credentials import AzureKeyCredential, TokenCredential
from azure.core.pipeline.policies import RetryPolicy
from azure.search.documents import SearchClient
from azure.search.documents.indexes import SearchIndexClient
from openai import AzureOpenAI

from librarian_pipeline.azure.account import Account
from librarian_pipeline.settings import AzureSettings

OPENAI_SCOPE = "https://cognitiveservices.azure.com/.default"
BACKOFF_S = 0.8
"""Before the second try again, where the service doesn't say; doubled with each."""
TRANSIENT = (408, 429, 500, 502, 503, 504)


class BoundedRetries(RetryPolicy[Any, Any]):
    """Tries again what may be tried again: all our requests may, since each leaves the service as if it was sent once.

    The library's own policy doesn't try a POST again that met 429 without Retry-After, and waits for as long as Retry-After
    asks, be it hours.
    """

    def __init__(self, retries: int, max_wait_s: float) -> None:
        super().__init__(
            retry_total=retries,
            retry_connect=retries,
            retry_read=retries,
            retry_status=retries,
            retry_backoff_factor=BACKOFF_S,
            retry_backoff_max=max_wait_s,
        )
        self._max_wait_s = max_wait_s

    def configure_retries(self, options: dict[str, Any]) -> dict[str, Any]:
        configured = super().configure_retries(options)
        return {**configured, "methods": configured["methods"] | {"POST"}}

    def is_retry(self, settings: dict[str, Any], response: Any) -> bool:
        if response.http_response.status_code not in TRANSIENT:
            return False
        return bool(settings["total"] > 0 and (self.get_retry_after(response) or 0) <= self._max_wait_s)


def search_client(account: Account, settings: AzureSettings) -> SearchClient:
    """For documents and queries."""
    return SearchClient(account.search_endpoint, account.index, search_credential(account), **_options(settings))


def index_client(account: Account, settings: AzureSettings) -> SearchIndexClient:
    """For the definition of the index."""
    return SearchIndexClient(account.search_endpoint, search_credential(account), **_options(settings))


def openai_client(account: Account, settings: AzureSettings) -> AzureOpenAI:
    """For embeddings."""
    login: dict[str, Any]
    if account.openai_key is not None:
        login = {"api_key": account.openai_key.get_secret_value()}
    else:
        from azure.identity import get_bearer_token_provider

        login = {"azure_ad_token_provider": get_bearer_token_provider(_identity(), OPENAI_SCOPE)}
    return AzureOpenAI(
        azure_endpoint=account.openai_endpoint,
        api_version=settings.openai_api_version,
        timeout=settings.timeout_s,
        max_retries=settings.retries,
        **login,
    )


def search_credential(account: Account) -> AzureKeyCredential | TokenCredential:
    return AzureKeyCredential(account.search_key.get_secret_value()) if account.search_key is not None else _identity()


def _identity() -> TokenCredential:
    """Whoever is logged in: a managed identity, the environment, `az login`. Nothing is asked before the first request."""
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()


def _options(settings: AzureSettings) -> dict[str, Any]:
    return {
        "api_version": settings.search_api_version,
        "connection_timeout": settings.timeout_s,
        "read_timeout": settings.timeout_s,
        "retry_policy": BoundedRetries(settings.retries, settings.max_wait_s),
    }
