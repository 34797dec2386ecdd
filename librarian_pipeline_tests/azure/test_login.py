"""A login by key where there is one, by identity otherwise."""

import time
from typing import Any

import pytest
from azure.core.credentials import AccessToken, AzureKeyCredential
from azure.identity import CredentialUnavailableError
from pydantic import SecretStr

from librarian_pipeline.azure.account import Account
from librarian_pipeline.azure.clients import OPENAI_SCOPE, search_credential
from librarian_pipeline.azure.embedding import AzureEmbedder
from librarian_pipeline.azure.failures import ServiceError
from librarian_pipeline.settings import AzureSettings
from librarian_pipeline_tests.azure.fake_service import FakeService

TOKEN = "a-token-that-nobody-may-see"
SETTINGS = AzureSettings(dimensions=4, retries=0)


class Identity:
    """Stands in for whoever is logged in."""

    asked: list[str]

    def __init__(self, **_: Any) -> None:
        Identity.asked = []

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        Identity.asked += scopes
        return AccessToken(TOKEN, int(time.time()) + 3_600)


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> type[Identity]:
    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Identity)
    return Identity


def account(url: str, key: str | None) -> Account:
    secret = SecretStr(key) if key else None
    return Account(
        openai_endpoint=url, openai_key=secret, deployment="embed", search_endpoint=url, search_key=secret, index="podcast"
    )


def test_with_a_key_no_identity_is_asked(identity: type[Identity]) -> None:
    credential = search_credential(account("https://one.example", "a-key-0123456789"))
    assert isinstance(credential, AzureKeyCredential)
    assert credential.key == "a-key-0123456789"


def test_without_a_key_it_is_the_identity(identity: type[Identity]) -> None:
    assert isinstance(search_credential(account("https://one.example", None)), identity)


def test_embeddings_are_asked_for_with_a_token_of_the_identity(identity: type[Identity], service: FakeService) -> None:
    with pytest.raises(ServiceError) as caught:  # the fake knows keys alone
        AzureEmbedder(account(service.url, None), SETTINGS).embed(["salt"])
    (request,) = service.of("embed")
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert identity.asked == [OPENAI_SCOPE]
    assert TOKEN not in str(caught.value)


def test_without_key_and_identity_it_says_how_to_log_in(monkeypatch: pytest.MonkeyPatch, service: FakeService) -> None:
    class Nobody(Identity):
        def get_token(self, *scopes: str, **_: Any) -> AccessToken:
            raise CredentialUnavailableError(message="nobody is logged in")

    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Nobody)
    with pytest.raises(ServiceError, match="no login by identity: nobody is logged in: `az login`"):
        AzureEmbedder(account(service.url, None), SETTINGS).embed(["salt"])
    assert service.requests == []
