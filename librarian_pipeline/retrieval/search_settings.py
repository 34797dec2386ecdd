"""The settings that a search needs besides the indexes: published with these, so that what was measured is served."""

from collections.abc import Mapping
from typing import Any

from librarian_pipeline.errors import UsageError
from librarian_pipeline.retrieval.modes import DEFAULT_MODE
from librarian_pipeline.settings import Settings, change_settings, known_keys

SECTIONS = ("fusion", "embeddings")
MODE = "default_mode"


def search_settings(settings: Settings) -> dict[str, Any]:
    """By their keys (`fusion.c`), and the mode that is used where none is asked for."""
    values = settings.model_dump(mode="json", include=set(SECTIONS))
    by_key = {f"{section}.{name}": value for section in SECTIONS for name, value in values[section].items()}
    return {**by_key, MODE: DEFAULT_MODE}


def searched_with(settings: Settings, search: Mapping[str, Any]) -> Settings:
    """The settings with those of `search_settings` in place of their own.

    Raises `UsageError` for a key that this version of the program doesn't know.
    """
    changes = {key: value for key, value in search.items() if key != MODE}
    if unknown := changes.keys() - set(known_keys()):
        message = f"the published snapshot was made by another version of this program ({', '.join(sorted(unknown))})"
        raise UsageError(message, "run `librarian run`, which publishes anew")
    return change_settings(settings, changes, "the published snapshot")
