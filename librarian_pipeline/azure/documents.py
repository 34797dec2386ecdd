"""What a passage is in the index: a document with a key that addresses can hold, its text, and what it was made from."""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from librarian_pipeline.azure.index_definition import DIGEST, KEY, VECTOR, text_field
from librarian_pipeline.chunking.passages import indexed_text
from librarian_pipeline.retrieval.modes import passage_texts

# Keys must not begin with an underscore, which the encoding may.
_KEY_BEGINS = "p"


@dataclass(frozen=True)
class Document:
    """A passage as it is to be in the index. `digest` changes with all that the document and its vector are made from."""

    chunk_id: str
    text: str
    field: str
    digest: str

    @property
    def key(self) -> str:
        return key_of(self.chunk_id)

    def body(self, vector: Iterable[float]) -> dict[str, Any]:
        """As it is uploaded."""
        return {KEY: self.key, DIGEST: self.digest, self.field: self.text, VECTOR: list(vector)}


def documents_of(chunks: pa.Table, made_by: Mapping[str, Any]) -> list[Document]:
    """Of the passages, in the order of their ids; `made_by` is what besides the text decides on a vector.

    The text is what the local indexes see of a passage. Passages without any have no document: no model embeds nothing.
    """
    documents = []
    for row in passage_texts(chunks):
        text, field = indexed_text(row["heading"], row["text"]), text_field(row["language"])
        if text.strip():
            documents.append(Document(row["chunk_id"], text, field, _digest(text, field, made_by)))
    return documents


def key_of(chunk_id: str) -> str:
    """Keys hold letters, digits, `_`, `-` and `=`; ids of passages hold colons and dots too."""
    return _KEY_BEGINS + base64.urlsafe_b64encode(chunk_id.encode()).decode().rstrip("=")


def chunk_id_of(key: str) -> str:
    """The inverse of `key_of`. Raises `ValueError` for what is no such key."""
    if not key.startswith(_KEY_BEGINS):
        raise ValueError(f"{key!r} is no key of a passage")
    encoded = key[1:]
    chunk_id = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True).decode()
    if key_of(chunk_id) != key:
        raise ValueError(f"{key!r} is no key of a passage")
    return chunk_id


def _digest(text: str, field: str, made_by: Mapping[str, Any]) -> str:
    made = json.dumps([text, field, dict(made_by)], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(made.encode()).hexdigest()[:32]
