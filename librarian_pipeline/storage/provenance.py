"""What went into an output: kept inside its Parquet file, so that the two can't be parted."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

PARQUET_KEY = b"librarian"

Recipe = Mapping[str, Any]
"""Everything besides the inputs that can change an output: code version, parameters, model digests, library versions."""


def fingerprint(recipe: Recipe) -> str:
    """A short hash (16 hex digits) of a recipe; the order of its keys doesn't matter."""
    return hashlib.sha256(json.dumps(recipe, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Provenance:
    """The record inside a Parquet file.

    `inputs` maps each input (an asset's partition such as `chunks[ep03]`, or a source such as `file`) to its content hash.
    `beside` maps the tables written in the same step (`rankings` beside `eval_scores`) to theirs. `measures` holds what
    checks that can block measured of the output: whether it does is judged against the settings of the day.
    """

    asset: str
    partition: str | None
    recipe: Recipe
    inputs: Mapping[str, str]
    content_hash: str
    rows: int
    beside: Mapping[str, str] = field(default_factory=dict)
    measures: Mapping[str, float] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """The data version: the hash of all that the step gave, the tables beside the asset's own among it."""
        if not self.beside:
            return self.content_hash
        return hashlib.sha256(json.dumps([self.content_hash, *sorted(self.beside.items())]).encode()).hexdigest()

    @property
    def recipe_fingerprint(self) -> str:
        return fingerprint(self.recipe)

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, text: bytes) -> "Provenance":
        return cls(**json.loads(text))
