"""What goes wrong with a service, as one clear line without keys."""

from collections.abc import Iterator
from contextlib import contextmanager

import openai
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceRequestTimeoutError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)

from librarian_pipeline.azure.account import Account
from librarian_pipeline.errors import LibrarianError

AGAIN = "run it again: what was sent is kept, and it goes on from there"
SHOWN_CHARACTERS = 200
_BUSY = (429, 503)


class ServiceError(LibrarianError):
    """A service that can't be reached, refuses, or answers with what it shouldn't."""


@contextmanager
def explaining(account: Account, doing: str) -> Iterator[None]:
    """Turns what the libraries raise into `ServiceError`.

    Neither cause nor context goes with it: their texts hold what the service said, which may be a key.
    """
    try:
        yield
    except openai.OpenAIError as error:
        raise _of_openai(error, account, doing) from None
    except AzureError as error:
        raise _of_search(error, account, doing) from None


def _of_openai(error: openai.OpenAIError, account: Account, doing: str) -> ServiceError:
    match error:
        case openai.APITimeoutError():
            return ServiceError(f"{doing}: Azure OpenAI did not answer in time", _longer())
        case openai.APIConnectionError():
            return ServiceError(f"{doing}: {account.openai_endpoint} can't be reached", "look at AZURE_OPENAI_ENDPOINT")
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            return ServiceError(
                f"{doing}: Azure OpenAI refuses the login ({error.status_code})", _login("AZURE_OPENAI_API_KEY")
            )
        case openai.NotFoundError():
            fix = "look at AZURE_OPENAI_EMBED_DEPLOYMENT and AZURE_OPENAI_ENDPOINT"
            return ServiceError(f"{doing}: there is no deployment {account.deployment!r}", fix)
        case openai.APIStatusError() if error.status_code in _BUSY:
            return ServiceError(f"{doing}: Azure OpenAI is too busy ({error.status_code}){_asked(error)}", AGAIN)
        case openai.APIStatusError():
            return ServiceError(f"{doing}: Azure OpenAI answers {error.status_code}: {_shown(error.message, account)}")
    return ServiceError(f"{doing}: {_shown(str(error), account)}")


def _of_search(error: AzureError, account: Account, doing: str) -> ServiceError:
    match error:
        case ServiceResponseTimeoutError() | ServiceRequestTimeoutError():
            return ServiceError(f"{doing}: Azure AI Search did not answer in time", _longer())
        case ServiceRequestError():
            return ServiceError(f"{doing}: {account.search_endpoint} can't be reached", "look at AZURE_SEARCH_ENDPOINT")
        case ServiceResponseError():
            return ServiceError(f"{doing}: Azure AI Search broke off its answer", AGAIN)
        case HttpResponseError(status_code=401 | 403 as status):
            return ServiceError(f"{doing}: Azure AI Search refuses the login ({status})", _login("AZURE_SEARCH_API_KEY"))
        case ClientAuthenticationError():  # of the identity, before anything is sent
            return ServiceError(
                f"{doing}: no login by identity: {_shown(error.message, account)}", "`az login`, or set the keys"
            )
        case HttpResponseError(status_code=404):
            fix = "bring it up to date: it is made anew"
            return ServiceError(f"{doing}: the index {account.index!r} is gone", fix)
        case HttpResponseError(status_code=409 | 412):
            return ServiceError(f"{doing}: somebody else changed the index {account.index!r} meanwhile", AGAIN)
        case HttpResponseError(status_code=413):
            return ServiceError(
                f"{doing}: a single document is too large for the service", "cut smaller passages: see [chunks]"
            )
        case HttpResponseError(status_code=status) if status in _BUSY:
            asked = getattr(error.response, "headers", {}).get("Retry-After")
            told = f", and asks to wait {asked} s" if asked else ""
            return ServiceError(f"{doing}: Azure AI Search is too busy ({status}){told}", AGAIN)
        case HttpResponseError(status_code=int(status)):
            return ServiceError(f"{doing}: Azure AI Search answers {status}: {_shown(error.message, account)}")
    return ServiceError(f"{doing}: {_shown(error.message, account)}")


def _asked(error: openai.APIStatusError) -> str:
    asked = error.response.headers.get("Retry-After")
    return f", and asks to wait {asked} s" if asked else ""


def _longer() -> str:
    return f"{AGAIN}, or set [azure] timeout_s"


def _login(key: str) -> str:
    return f"look at {key}, or at the roles of the identity"


def _shown(text: str, account: Account) -> str:
    line = " ".join(account.scrub(text).split())
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"
