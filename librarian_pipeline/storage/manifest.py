"""What a published snapshot says of itself: `manifest.json`."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from librarian_pipeline.storage.provenance import Provenance, Recipe

MANIFEST = "manifest.json"
CONTRACT = 1
"""Counts up when readers of a snapshot have to know more than before."""
ID_DIGITS = 16


@dataclass(frozen=True)
class FileDigest:
    """A file of the snapshot; `rows` of a Parquet file."""

    bytes: int
    sha256: str
    rows: int | None = None


@dataclass(frozen=True)
class SnapshotOutput:
    """An output that the snapshot holds: its data version, and the fingerprint of its recipe."""

    version: str
    recipe: str


@dataclass(frozen=True)
class Manifest:
    """`search` holds the settings that a search over the snapshot needs; `outputs` are named `chunks[ep03]`, `eval_scores`.

    `rows` are counted by table, `recipes` are known by their fingerprints, `files` by their paths inside the snapshot.
    `created` is a moment in UTC, as ISO 8601 has it.
    """

    id: str
    created: str
    search: Mapping[str, Any]
    outputs: Mapping[str, SnapshotOutput]
    recipes: Mapping[str, Recipe]
    rows: Mapping[str, int]
    files: Mapping[str, FileDigest]
    contract: int = CONTRACT

    def to_json(self) -> str:
        """With a digest of its own, so that no bit of it can turn unseen."""
        body = asdict(self)
        return json.dumps({**body, "digest": _digest(body)}, indent=1, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """Raises `ValueError` if the text is not what `to_json` gave."""
        body = json.loads(text)
        if not isinstance(body, dict) or body.pop("digest", None) != _digest(body):
            raise ValueError("its digest is another")
        if body.get("contract") != CONTRACT:
            raise ValueError(f"another version of this program wrote it (contract {body.get('contract')}, not {CONTRACT})")
        outputs = {name: SnapshotOutput(**output) for name, output in body.pop("outputs").items()}
        files = {name: FileDigest(**digest) for name, digest in body.pop("files").items()}
        return cls(**body, outputs=outputs, files=files)


def name_of(record: Provenance) -> str:
    return record.asset if record.partition is None else f"{record.asset}[{record.partition}]"


def outputs_of(records: Iterable[Provenance]) -> dict[str, SnapshotOutput]:
    return {name_of(record): SnapshotOutput(record.version, record.recipe_fingerprint) for record in records}


def snapshot_id(records: Iterable[Provenance], search: Mapping[str, Any]) -> str:
    """Equal for equal content: the data versions and recipes of all that is in it, and how it is searched."""
    outputs = {name: asdict(output) for name, output in outputs_of(records).items()}
    return _digest({"contract": CONTRACT, "outputs": outputs, "search": dict(search)})[:ID_DIGITS]


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
