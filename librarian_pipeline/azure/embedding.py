"""Vectors of an Azure OpenAI deployment."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from openai import AzureOpenAI

from librarian_pipeline.azure.account import Account
from librarian_pipeline.azure.budget import require_unspent
from librarian_pipeline.azure.clients import openai_client
from librarian_pipeline.azure.failures import ServiceError, explaining
from librarian_pipeline.retrieval.embedders.interface import Vectors, batches
from librarian_pipeline.settings import AzureSettings


class AzureEmbedder:
    """`tokens` counts what the service says it embedded so far."""

    def __init__(self, account: Account, settings: AzureSettings, client: AzureOpenAI | None = None) -> None:
        self.tokens = 0
        self._account = account
        self._settings = settings
        self._client = client or openai_client(account, settings)

    @property
    def recipe(self) -> Mapping[str, Any]:
        """What besides a text decides on its vector, as far as anybody outside can know."""
        return {
            "endpoint": self._account.openai_endpoint,
            "deployment": self._account.deployment,
            "dimensions": self._settings.dimensions,
        }

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimensions). Raises `ServiceError`; `UsageError` once the budget is used up."""
        parts = [self._embed_batch(batch) for batch in batches(texts, self._settings.embed_batch)]
        return np.concatenate(parts) if parts else np.zeros((0, self._settings.dimensions), dtype=np.float32)

    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        require_unspent(self.tokens, self._settings)
        with explaining(self._account, f"embedding {len(texts)} texts"):
            answer = self._client.embeddings.create(
                input=list(texts),
                model=self._account.deployment,
                dimensions=self._settings.dimensions,
                encoding_format="float",
            )
        self.tokens += answer.usage.total_tokens
        by_index = {item.index: item.embedding for item in answer.data}
        if sorted(by_index) != list(range(len(texts))):
            raise ServiceError(f"Azure OpenAI gave {len(answer.data)} vectors for {len(texts)} texts", "try again")
        sizes = {len(vector) for vector in by_index.values()}
        if sizes != {self._settings.dimensions}:
            raise ServiceError(
                f"the deployment {self._account.deployment!r} gives vectors of {max(sizes)} dimensions, "
                f"and [azure] dimensions says {self._settings.dimensions}",
                "set it to what the model gives",
            )
        vectors = np.array([by_index[row] for row in range(len(texts))], dtype=np.float32)
        if not np.isfinite(vectors).all():
            raise ServiceError(f"the deployment {self._account.deployment!r} gave vectors that are no numbers", "try again")
        return vectors
