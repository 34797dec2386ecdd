"""An archive's services on Azure, opened: what the command and the assets do with them."""

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa

from librarian_pipeline.azure.account import Account, read_account
from librarian_pipeline.azure.clients import index_client, search_client
from librarian_pipeline.azure.embedding import AzureEmbedder
from librarian_pipeline.azure.evaluating import AzureMeasured, digest_of, measure_azure, store
from librarian_pipeline.azure.failures import AGAIN, ServiceError
from librarian_pipeline.azure.index_definition import owner_of, text_fields_of
from librarian_pipeline.azure.searching import AzureSearcher
from librarian_pipeline.azure.synchronising import Index, OnEstimate, Synchronised, missing_from, synchronise
from librarian_pipeline.errors import UsageError
from librarian_pipeline.retrieval.indexing import indexed_episodes
from librarian_pipeline.retrieval.modes import passages_of
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.storage.schemas import CHUNKS
from librarian_pipeline.workspace import Workspace

LOOK_AGAIN_S = 1.0
OnDone = Callable[[int, int], None]


class AzureStack:
    """Nothing is sent before it is asked to do something."""

    def __init__(self, workspace: Workspace, account: Account | None = None) -> None:
        self._workspace = workspace
        self._settings = workspace.settings.azure
        self.account = account or read_account(workspace.home)
        self._client = search_client(self.account, self._settings)
        self._embedder = AzureEmbedder(self.account, self._settings)
        owner = owner_of(workspace.home, self._settings)
        self._index = Index(self.account, self._settings, owner, self._client, index_client(self.account, self._settings))

    def update(self, on_estimate: OnEstimate, on_done: OnDone | None = None) -> Synchronised:
        """Makes the index hold the passages that the local indexes hold. Raises like `synchronise`."""
        return synchronise(self._index, self._embedder, self._chunks, self._settings, on_estimate, on_done)

    def searcher(self) -> AzureSearcher:
        """Over the index as it is. Raises `UsageError` if there is none, or if it isn't up to date."""
        found = self._index.find()
        if found is None:
            raise UsageError(
                f"there is no index {self.account.index!r}", "bring it up to date: `librarian eval --azure` does"
            )
        self._wait_until_searchable()
        depth = self._workspace.settings.fusion.depth
        return AzureSearcher(
            self.account, self._client, self._embedder, text_fields_of(found), passages_of(self._chunks), depth
        )

    def evaluate(self, on_progress: OnDone | None = None) -> tuple[AzureMeasured, Provenance]:
        """Measures the modes on Azure beside the local ones, and keeps the figures in the warehouse."""
        searcher, searched_in = self.searcher(), self._searched_in()
        measured = measure_azure(self._workspace, searcher, searched_in, on_progress)
        return measured, store(self._workspace, measured, searched_in)

    @cached_property
    def _chunks(self) -> pa.Table:
        warehouse = self._workspace.warehouse
        return warehouse.read_all("chunks", indexed_episodes(warehouse), CHUNKS)

    def _wait_until_searchable(self) -> None:
        """What was uploaded a moment ago may not be found yet."""
        until = time.monotonic() + self._settings.max_wait_s
        while missing := missing_from(self._index, self._embedder, self._chunks):
            if time.monotonic() + LOOK_AGAIN_S > until:
                raise ServiceError(
                    f"{missing} passages are not in the index {self.account.index!r}, or not as they are", AGAIN
                )
            time.sleep(LOOK_AGAIN_S)

    def _searched_in(self) -> Mapping[str, Any]:
        """What can change the ranks, as far as anybody outside the service can know."""
        return {
            "index": digest_of(self._index.listing()),
            "api_version": self._settings.search_api_version,
            "depth": self._workspace.settings.fusion.depth,
            **self._embedder.recipe,
        }
