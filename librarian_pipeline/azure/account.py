"""Which Azure services an archive uses, and with which keys. Keys come in here, and go nowhere but to their services."""

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import BaseModel, ConfigDict, SecretStr

from librarian_pipeline.errors import UsageError

ACCOUNT_FILE = "azure.env"
REQUIRED = (
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_EMBED_DEPLOYMENT",
    "AZURE_SEARCH_ENDPOINT",
    "AZURE_SEARCH_INDEX",
)
KEYS = ("AZURE_OPENAI_API_KEY", "AZURE_SEARCH_API_KEY")
LIBRARIES = ("azure.search.documents", "azure.identity", "openai")
INSTALL = 'pip install -e ".[azure]"'
HIDDEN = "***"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TOKEN = re.compile(r"eyJ[\w-]+\.[\w.=-]+|(?<=\bBearer )\S+", re.IGNORECASE)
"""A JSON Web Token (RFC 7519), which begins with `{"` in base64, or whatever a request was authorised with."""
_INDEX_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,126}[a-z0-9])?")


class Account(BaseModel):
    """A key that is None means a login by identity. Neither `repr` nor an error of pydantic's shows a key."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    openai_endpoint: str
    openai_key: SecretStr | None
    deployment: str
    search_endpoint: str
    search_key: SecretStr | None
    index: str

    def scrub(self, text: str) -> str:
        """`text` without the keys, and without tokens of a login by identity: services and libraries may say them again."""
        for key in (self.openai_key, self.search_key):
            if key is not None:
                text = text.replace(key.get_secret_value(), HIDDEN)
        return _TOKEN.sub(HIDDEN, text)


def read_account(home: Path, environ: Mapping[str, str] | None = None) -> Account:
    """From the environment and, below it, the file `azure.env` of the archive at `home`, which git ignores.

    Raises `UsageError`, which names variables and never a key, if something is missing or can't be used.
    """
    values = _values(home, os.environ if environ is None else environ)
    missing = [name for name in REQUIRED if name not in values]
    if missing:
        raise UsageError(
            f"Azure is not set up: {', '.join(missing)} missing", f"set it, or write it to {home / ACCOUNT_FILE}"
        )
    index = values["AZURE_SEARCH_INDEX"]
    if not _INDEX_NAME.fullmatch(index) or "--" in index:
        raise UsageError(
            f"AZURE_SEARCH_INDEX = {index!r} is no name of an index", "use lower-case letters, digits and single dashes"
        )
    keys = {name: SecretStr(values[name]) if name in values else None for name in KEYS}
    return Account(
        openai_endpoint=_endpoint("AZURE_OPENAI_ENDPOINT", values, keys["AZURE_OPENAI_API_KEY"]),
        openai_key=keys["AZURE_OPENAI_API_KEY"],
        deployment=values["AZURE_OPENAI_EMBED_DEPLOYMENT"],
        search_endpoint=_endpoint("AZURE_SEARCH_ENDPOINT", values, keys["AZURE_SEARCH_API_KEY"]),
        search_key=keys["AZURE_SEARCH_API_KEY"],
        index=index,
    )


def is_configured(home: Path, environ: Mapping[str, str] | None = None) -> bool:
    """Whether all that has no default is set; whether it can be used is another question."""
    values = _values(home, os.environ if environ is None else environ)
    return all(name in values for name in REQUIRED)


def missing_libraries() -> list[str]:
    """What of the extra is not installed. Nothing of it is loaded for that."""
    return [name for name in LIBRARIES if not _is_installed(name)]


def require_libraries() -> None:
    """Raises `UsageError` unless the extra is installed."""
    if missing := missing_libraries():
        raise UsageError(f"the extra for Azure is not installed ({', '.join(missing)})", INSTALL)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent isn't there
        return False


def _values(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    path = home / ACCOUNT_FILE
    try:
        in_file = dotenv_values(path, interpolate=False) if path.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read ({type(error).__name__})", "make it a text file that you may read") from None
    merged = {**in_file, **{name: environ[name] for name in (*REQUIRED, *KEYS) if environ.get(name, "").strip()}}
    return {name: value.strip() for name, value in merged.items() if value and value.strip()}


def _endpoint(name: str, values: Mapping[str, str], key: SecretStr | None) -> str:
    """Encrypted, or on this machine: a key or a token must not travel in the open."""
    url = values[name].rstrip("/")
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and not parts.query and not parts.fragment and "@" not in parts.netloc
        safe = parts.scheme == "https" or (parts.scheme == "http" and key is not None and parts.hostname in _LOOPBACK)
    except ValueError:
        usable = safe = False
    if not usable or not safe:
        raise UsageError(f"{name} is no address of a service that a key may be sent to", "write it as https://NAME...")
    return url
