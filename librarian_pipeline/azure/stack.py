"""An archive's services on Azure, opened: what the command and the assets do with them."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
from filelock import FileLock, Timeout

from librarian_pipeline.azure.account import Account, read_account
from librarian_pipeline.azure.budget import estimate, require_within
from librarian_pipeline.azure.clients import index_client, search_client
from librarian_pipeline.azure.embedding import AzureEmbedder
from librarian_pipeline.azure.evaluating import AzureMeasured, digest_of, measure_azure, store
from librarian_pipeline.azure.failures import AGAIN, ServiceError
from librarian_pipeline.azure.index_definition import owner_of, text_fields_of
from librarian_pipeline.azure.searching import AzureSearcher
from librarian_pipeline.azure.synchronising import Index, OnEstimate, Synchronised, out_of_step, synchronise
from librarian_pipeline.errors import UsageError
from librarian_pipeline.retrieval.indexing import indexed_episodes
from librarian_pipeline.retrieval.modes import passages_of
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.storage.schemas import CHUNKS, GOLD_SET
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
        with self._alone():
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

    def evaluate(self, on_estimate: OnEstimate, on_progress: OnDone | None = None) -> tuple[AzureMeasured, Provenance]:
        """Measures the modes on Azure beside the local ones, and keeps the figures in the warehouse.

        `on_estimate` is told what embedding the queries would cost before that is done. Raises like `searcher`, and
        `UsageError` above the budget.
        """
        gold = self._workspace.warehouse.read_all("gold_set", ["all"], GOLD_SET)
        told = estimate(self._chunks.num_rows, gold.column("query").unique().to_pylist(), self._settings)
        on_estimate(told)
        require_within(told, self._settings)
        with self._alone():
            searcher, searched_in = self.searcher(), self._searched_in()
            measured = measure_azure(self._workspace, searcher, searched_in, on_progress)
            return measured, store(self._workspace, measured, searched_in)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Raises `UsageError` while another process is at work on Azure for this archive."""
        folder = self._workspace.warehouse.root
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".azure.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            line = "another update on Azure is at work on this archive"
            raise UsageError(line, "wait until it has ended") from None
        try:
            yield
        finally:
            lock.release()

    @cached_property
    def _chunks(self) -> pa.Table:
        warehouse = self._workspace.warehouse
        return warehouse.read_all("chunks", indexed_episodes(warehouse), CHUNKS)

    def _wait_until_searchable(self) -> None:
        """What was uploaded a moment ago may not be found yet, and what was deleted may be found still."""
        until = time.monotonic() + self._settings.max_wait_s
        while differing := out_of_step(self._index, self._embedder, self._chunks):
            if time.monotonic() + LOOK_AGAIN_S > until:
                raise ServiceError(
                    f"{differing} documents of the index {self.account.index!r} are not those of the archive", AGAIN
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
