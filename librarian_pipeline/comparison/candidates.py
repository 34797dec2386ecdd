"""What is compared: the settings as they are, and each with the changes that a person asked for."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from librarian_pipeline.errors import UsageError
from librarian_pipeline.settings import Settings, change_settings
from librarian_pipeline.storage.provenance import fingerprint

AS_SET = "as set"

# A key, and a value in quotes or without commas, up to the next comma or the end.
_CHANGE = re.compile(r"""\s*([^=,\s]+)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^,]*?)\s*(?:,|$)""")


@dataclass(frozen=True)
class Candidate:
    """Settings to measure; `name` is what was asked for, `changes` how they differ from those of the archive.

    `label` stands for the name in tables: `as set`, and the number of each of the others.
    """

    label: str
    name: str
    settings: Settings
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.settings.model_dump(mode="json"))


def candidates_of(settings: Settings, asked: Sequence[str]) -> list[Candidate]:
    """The settings as they are, then a candidate for each text such as `embeddings.model=char-ngram,fusion.c=10`.

    Raises `UsageError` for a text that is none, for an unknown key or a wrong value, and for settings that come twice.
    """
    candidates = [Candidate(AS_SET, AS_SET, settings)]
    for number, text in enumerate(asked, start=1):
        changes = parse_changes(text)
        changed = change_settings(settings, changes, f"--set {text!r}")
        candidate = Candidate(str(number), text.strip(), changed, changes)
        twin = next((other for other in candidates if other.fingerprint == candidate.fingerprint), None)
        if twin is not None:
            same = "changes nothing" if twin.name == AS_SET else f"is the same as --set {twin.name!r}"
            raise UsageError(f"--set {text!r} {same}", "leave it out, or ask for other values")
        candidates.append(candidate)
    return candidates


def parse_changes(text: str) -> dict[str, Any]:
    """`chunks.target_s=30,normalizer.name=snowball` as values by key: values of TOML where they are, otherwise text.

    Raises `UsageError` for anything else, and for a key that comes twice.
    """
    changes: dict[str, Any] = {}
    position = 0
    while position < len(text) or not changes:
        found = _CHANGE.match(text, position)
        if found is None:
            fix = "write section.key=value, several with commas between them, and a value with commas in quotes"
            raise UsageError(f"--set {text!r}: {text[position:]!r} is no change", fix)
        key, value = found.groups()
        if key in changes:
            raise UsageError(f"--set {text!r} sets {key} twice", "for several candidates, write --set several times")
        changes[key] = _value(value)
        position = found.end()
    return changes


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = parsed["value"]
    # A date, or a second line, is no value of a setting.
    return value if len(parsed) == 1 and isinstance(value, str | int | float) else text
