from pathlib import Path

import pytest

from librarian_pipeline.azure.account import KEYS, REQUIRED, is_configured, read_account
from librarian_pipeline.errors import UsageError

COMPLETE = {
    "AZURE_OPENAI_ENDPOINT": "https://speech.openai.azure.com/",
    "AZURE_OPENAI_API_KEY": "an-openai-key-0123456789",
    "AZURE_OPENAI_EMBED_DEPLOYMENT": "embed-small",
    "AZURE_SEARCH_ENDPOINT": "https://speech.search.windows.net",
    "AZURE_SEARCH_API_KEY": "a-search-key-0123456789",
    "AZURE_SEARCH_INDEX": "podcast",
}


def complaint(home: Path, environ: dict[str, str]) -> str:
    with pytest.raises(UsageError) as caught:
        read_account(home, environ)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write(home: Path, values: dict[str, str]) -> None:
    (home / "azure.env").write_text("".join(f"{name}={value}\n" for name, value in values.items()), encoding="utf-8")


def test_everything_can_come_from_the_environment(tmp_path: Path) -> None:
    account = read_account(tmp_path, COMPLETE)
    assert (account.deployment, account.index) == ("embed-small", "podcast")
    assert account.openai_endpoint == "https://speech.openai.azure.com"
    assert account.search_key is not None
    assert account.search_key.get_secret_value() == "a-search-key-0123456789"


def test_everything_can_come_from_the_archives_file(tmp_path: Path) -> None:
    write(tmp_path, COMPLETE)
    assert read_account(tmp_path, {}) == read_account(tmp_path, COMPLETE)


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    write(tmp_path, COMPLETE)
    assert read_account(tmp_path, {"AZURE_SEARCH_INDEX": "other"}).index == "other"


def test_the_file_is_ignored_by_git() -> None:
    ignored = Path(__file__).parent.parent.parent / ".gitignore"
    assert "azure.env" in ignored.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", REQUIRED)
def test_what_is_missing_is_named(tmp_path: Path, name: str) -> None:
    environ = {key: value for key, value in COMPLETE.items() if key != name}
    assert not is_configured(tmp_path, environ)
    assert name in complaint(tmp_path, environ)


@pytest.mark.parametrize("name", KEYS)
def test_without_a_key_it_is_configured_for_a_login_by_identity(tmp_path: Path, name: str) -> None:
    environ = {key: value for key, value in COMPLETE.items() if key != name}
    account = read_account(tmp_path, environ)
    assert (account.openai_key if name.startswith("AZURE_OPENAI") else account.search_key) is None


@pytest.mark.parametrize(
    "address",
    [
        "http://speech.search.windows.net",
        "http://127.0.0.1.example.org",
        "speech.search.windows.net",
        "https://user:pass@speech.search.windows.net",
        "https://speech.search.windows.net/?sig=1",
        "file:///etc/passwd",
        "https://[",
        "https://",
    ],
)
def test_a_key_goes_to_no_address_that_is_not_encrypted(tmp_path: Path, address: str) -> None:
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_SEARCH_ENDPOINT"):
        assert name in complaint(tmp_path, {**COMPLETE, name: address})


def test_a_token_goes_to_no_address_without_encryption_even_on_this_machine(tmp_path: Path) -> None:
    environ = {**COMPLETE, "AZURE_SEARCH_ENDPOINT": "http://127.0.0.1:1", "AZURE_SEARCH_API_KEY": ""}
    assert "AZURE_SEARCH_ENDPOINT" in complaint(tmp_path, environ)


@pytest.mark.parametrize("name", ["Podcast", "a--b", "-a", "a-", "a b", "a/b", "a'b", "ž", "a" * 129])
def test_a_name_that_no_index_can_have_is_refused(tmp_path: Path, name: str) -> None:
    assert "AZURE_SEARCH_INDEX" in complaint(tmp_path, {**COMPLETE, "AZURE_SEARCH_INDEX": name})


def test_no_form_of_an_account_shows_a_key(tmp_path: Path) -> None:
    account = read_account(tmp_path, COMPLETE)
    shown = [repr(account), str(account), str(account.model_dump()), account.model_dump_json(), f"{account.__dict__}"]
    for key in KEYS:
        assert not any(COMPLETE[key] in text for text in shown)
        assert COMPLETE[key] not in account.scrub(f"refused: {COMPLETE[key]}!")


@pytest.mark.parametrize(
    "token",
    [
        "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJzZWFyY2gifQ.c2lnbmF0dXJl-_x",
        "eyJhbGciOiJub25lIn0.eyJhIjoxfQ.",
        "an.opaque/token+1==",
    ],
)
@pytest.mark.parametrize("said", ["{}", "refused ({}), try later", '{{"token": "{}"}}'])
def test_a_token_of_an_identity_is_shown_by_no_text(tmp_path: Path, token: str, said: str) -> None:
    text = said.format(token if token.startswith("eyJ") else f"Bearer {token}")
    assert token.rstrip("=") not in read_account(tmp_path, COMPLETE).scrub(text)


def test_other_text_is_shown_as_it_is(tmp_path: Path) -> None:
    text = "HTTP 403 for eyJ, see api-version 2026-04-01"
    assert read_account(tmp_path, COMPLETE).scrub(text) == text


def test_no_complaint_shows_a_key(tmp_path: Path) -> None:
    for name in REQUIRED:
        found = complaint(tmp_path, {**COMPLETE, name: ""})
        assert not any(COMPLETE[key] in found for key in KEYS)


def test_a_file_that_is_no_text_is_a_complaint(tmp_path: Path) -> None:
    (tmp_path / "azure.env").write_bytes(b"\xff\xfe\x00\x01")
    assert "azure.env" in complaint(tmp_path, {})
