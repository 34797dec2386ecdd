"""The settings that a search needs besides the indexes: published with these, so that what was measured is served."""

from collections.abc import Mapping
from typing import Any

from librarian_pipeline.errors import UsageError
from librarian_pipeline.settings import Settings, change_settings, known_keys

SECTIONS = ("fusion", "embeddings", "retrieval")
MODE = "retrieval.default_mode"


def search_settings(settings: Settings) -> dict[str, Any]:
    """By their keys (`fusion.c`), the mode that is used where none is asked for among them."""
    values = settings.model_dump(mode="json", include=set(SECTIONS))
    return {f"{section}.{name}": value for section in SECTIONS for name, value in values[section].items()}


def searched_with(settings: Settings, search: Mapping[str, Any]) -> Settings:
    """The settings with those of `search_settings` in place of their own.

    Raises `UsageError` for a key that this version of the program doesn't know.
    """
    if unknown := search.keys() - set(known_keys()):
        message = f"the published snapshot was made by another version of this program ({', '.join(sorted(unknown))})"
        raise UsageError(message, "run `librarian run`, which publishes anew")
    return change_settings(settings, dict(search), "the published snapshot")
