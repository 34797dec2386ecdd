"""Brings the index up to date with an archive's passages: only what changed is embedded and sent, what left is deleted.

What the index holds is asked of the index itself, so that a run that was cut off goes on where it stopped, from any machine.
A batch is uploaded before the next one is embedded: at most one batch of vectors is ever paid for twice.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from azure.core import MatchConditions
from azure.core.exceptions import ResourceNotFoundError
from azure.search.documents import SearchClient
from azure.search.documents.indexes import SearchIndexClient
from azure.search.documents.indexes.models import SearchIndex
from azure.search.documents.models import IndexDocumentsBatch, IndexingResult

from librarian_pipeline.azure.account import Account
from librarian_pipeline.azure.budget import Estimate, estimate, require_within
from librarian_pipeline.azure.documents import Document, documents_of
from librarian_pipeline.azure.embedding import AzureEmbedder
from librarian_pipeline.azure.failures import AGAIN, ServiceError, explaining
from librarian_pipeline.azure.index_definition import DIGEST, KEY, definition, require_ours, require_usable, text_fields_of
from librarian_pipeline.errors import UsageError
from librarian_pipeline.settings import AzureSettings

PAGE = 1_000
"""Documents in a page of the listing: what the service gives at most."""
PASSING = (409, 422, 429, 503)
"""What a document meets that may be taken at the next try."""
SHOWN = 3
PAUSE_S = 0.5
"""Before a document is sent for the second time; doubled each time."""

Part = TypeVar("Part")
OnEstimate = Callable[[Estimate], None]
OnDone = Callable[[int, int], None]


@dataclass(frozen=True)
class Synchronised:
    """What an update came to. `tokens` is the service's own count."""

    documents: int
    uploaded: int
    deleted: int
    unchanged: int
    tokens: int
    estimate: Estimate


class Index:
    """The index of one archive, whose name and owner are known."""

    def __init__(
        self, account: Account, settings: AzureSettings, owner: str, documents: SearchClient, indexes: SearchIndexClient
    ) -> None:
        self._account = account
        self._settings = settings
        self._owner = owner
        self._client = documents
        self._indexes = indexes

    def find(self) -> SearchIndex | None:
        """The index as it is there; None if there is none. Raises `UsageError` if it isn't ours."""
        with explaining(self._account, "reading the index"):
            try:
                found = self._indexes.get_index(self._account.index)
            except ResourceNotFoundError:
                return None
        require_ours(found, self._owner)
        return found

    def make_ready(self, found: SearchIndex | None, text_fields: Sequence[str]) -> None:
        """Creates the index, or adds the fields that it lacks. Raises `UsageError` where that can't be done."""
        kept = text_fields_of(found) if found is not None else []
        wanted = definition(self._account.index, self._owner, [*kept, *text_fields], self._settings.dimensions)
        if found is not None:
            require_usable(found, wanted)
            if {field.name for field in wanted.fields} <= {field.name for field in found.fields}:
                return
            # Whatever else was set on it stays as it is.
            there = {field.name for field in found.fields}
            found.fields.extend(field for field in wanted.fields if field.name not in there)
            wanted = found
        condition = MatchConditions.IfMissing if found is None else MatchConditions.IfNotModified
        with explaining(self._account, "making the index"):
            self._indexes.create_or_update_index(wanted, match_condition=condition)

    def listing(self) -> dict[str, str]:
        """The digest of every document by its key, page by page."""
        digests: dict[str, str] = {}
        last = ""
        while True:
            before = len(digests)
            with explaining(self._account, "listing the index"):
                page = self._client.search(
                    search_text="*",
                    filter=f"{KEY} gt '{last}'" if last else None,
                    order_by=[f"{KEY} asc"],
                    select=[KEY, DIGEST],
                    top=PAGE,
                )
                for found in page:
                    digests[found[KEY]] = found[DIGEST] or ""
                    last = found[KEY]
            if len(digests) - before < PAGE:
                return digests

    def upload(self, documents: Sequence[Document], vectors: Sequence[Sequence[float]]) -> dict[str, str]:
        """Sends documents; returns what the service said of each that it didn't take, by its passage's id."""
        bodies = {document.key: document.body(vector) for document, vector in zip(documents, vectors, strict=True)}
        ids = {document.key: document.chunk_id for document in documents}

        def send(keys: Sequence[str]) -> Sequence[IndexingResult]:
            batch = IndexDocumentsBatch()
            batch.add_upload_actions([bodies[key] for key in keys])
            return self._client.index_documents(batch)

        refused = self._send_until_taken(list(bodies), send, f"uploading {len(bodies)} documents")
        return {ids[key]: why for key, why in refused.items()}

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        """Deletes documents; returns what the service said of each that it kept, by its key."""

        def send(some: Sequence[str]) -> Sequence[IndexingResult]:
            batch = IndexDocumentsBatch()
            batch.add_delete_actions([{KEY: key} for key in some])
            return self._client.index_documents(batch)

        return self._send_until_taken(keys, send, f"deleting {len(keys)} documents")

    def _send_until_taken(
        self, keys: Sequence[str], send: Callable[[Sequence[str]], Sequence[IndexingResult]], doing: str
    ) -> dict[str, str]:
        """A partly failed request raises nothing: each document's success is looked at, and what may pass is sent again."""
        refused: dict[str, str] = {}
        left = list(keys)
        for attempt in range(self._settings.retries + 1):
            with explaining(self._account, doing):
                results = {result.key: result for result in send(left)}
            failed = {key: results.get(key) for key in left if not _is_taken(results.get(key))}
            refused.update({key: self._said(result) for key, result in failed.items()})
            for key in left:
                if key not in failed:
                    refused.pop(key, None)
            left = [key for key, result in failed.items() if result is None or result.status_code in PASSING]
            if not left:
                break
            if attempt < self._settings.retries:
                _pause(attempt, self._settings.max_wait_s)
        return refused

    def _said(self, result: IndexingResult | None) -> str:
        if result is None:
            return "no answer for it"
        return self._account.scrub(" ".join(f"{result.status_code} {result.error_message or ''}".split()))


def _is_taken(result: IndexingResult | None) -> bool:
    return result is not None and bool(result.succeeded)


def _pause(attempt: int, longest_s: float) -> None:
    time.sleep(min(PAUSE_S * 2.0**attempt, longest_s))


def synchronise(
    index: Index,
    embedder: AzureEmbedder,
    chunks: pa.Table,
    settings: AzureSettings,
    on_estimate: OnEstimate,
    on_done: OnDone | None = None,
) -> Synchronised:
    """Makes the index hold these passages. `on_estimate` is told what it would cost before anything is sent.

    Raises `UsageError` above the budget, or for an index that can't be used; `ServiceError` if the service doesn't do its
    part, once all has been tried: then the same call goes on from there.
    """
    wanted = documents_of(chunks, embedder.recipe)
    found = index.find()
    listed = index.listing() if found is not None else {}
    changed = [document for document in wanted if listed.get(document.key) != document.digest]
    gone = sorted(listed.keys() - {document.key for document in wanted})
    told = estimate(len(wanted), [document.text for document in changed], settings)
    on_estimate(told)
    require_within(told, settings)
    if listed and not wanted:
        raise UsageError("the archive has no passages, and the index has: nothing is deleted", "look after the archive")
    index.make_ready(found, sorted({document.field for document in wanted}))
    refused: dict[str, str] = {}
    done = 0
    for batch in _parts(changed, settings.upload_batch):
        vectors = embedder.embed([document.text for document in batch])
        refused |= index.upload(batch, vectors.astype(float).tolist())
        done += len(batch)
        if on_done:
            on_done(done, len(changed))
    # Last, so that a passage that got another id is at no time in neither form.
    kept: dict[str, str] = {}
    for keys in _parts(gone, PAGE):
        kept |= index.delete(keys)
    _require_all_taken(refused, kept)
    return Synchronised(len(wanted), len(changed), len(gone), len(wanted) - len(changed), embedder.tokens, told)


def out_of_step(index: Index, embedder: AzureEmbedder, chunks: pa.Table) -> int:
    """How many documents the index lacks, has otherwise than they are, or has too many."""
    listed = index.listing()
    wanted = {document.key: document.digest for document in documents_of(chunks, embedder.recipe)}
    return sum(listed.get(key) != wanted.get(key) for key in listed.keys() | wanted.keys())


def _require_all_taken(refused: Mapping[str, str], kept: Mapping[str, str]) -> None:
    for what, failed in (("not taken", refused), ("not deleted", kept)):
        if failed:
            shown = "; ".join(f"{name}: {why}" for name, why in list(failed.items())[:SHOWN])
            more = f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
            raise ServiceError(f"{len(failed)} documents were {what} by Azure AI Search ({shown}{more})", AGAIN)


def _parts(things: Sequence[Part], size: int) -> Iterator[Sequence[Part]]:
    for start in range(0, len(things), size):
        yield things[start : start + size]
