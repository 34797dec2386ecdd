"""Any model that sentence-transformers loads: from a folder, from the hub, or the packaged all-MiniLM-L6-v2."""

from collections.abc import Sequence

import numpy as np

from librarian_pipeline.errors import ModelNotFoundError
from librarian_pipeline.retrieval.embedders.interface import OnProgress, Vectors


class SentenceTransformerEmbedder:
    """The prompts are always set, if only to nothing: a model without saved prompts would silently use none."""

    def __init__(self, location: str, query_prompt: str | None, passage_prompt: str | None) -> None:
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # type: ignore[no-untyped-call]  # our own bars tell of what takes long
        try:
            self._model = SentenceTransformer(location, device="cpu")
        except Exception as error:  # a damaged file raises whatever its reader raises
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise ModelNotFoundError(
                f"no sentence-transformers model at {location!r} ({reason})",
                'set [embeddings] model to "st:" and a folder with the model, or to a packaged one (see `librarian models`)',
            ) from error
        saved = self._model.prompts
        self._query_prompt = query_prompt if query_prompt is not None else saved.get("query") or ""
        self._passage_prompt = passage_prompt if passage_prompt is not None else _saved_passage_prompt(saved)
        dimensions = self._model.get_embedding_dimension()
        if dimensions is None:
            raise ModelNotFoundError(f"the model at {location!r} does not say its dimensions", "choose another model")
        self.dimensions = int(dimensions)
        self.max_tokens: int | None = self._model.max_seq_length

    def embed_passages(self, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self._encode(text, self._passage_prompt)
            if on_progress:
                on_progress(row + 1, len(texts))
        return vectors

    def embed_query(self, text: str) -> Vectors:
        return self._encode(text, self._query_prompt)

    def count_tokens(self, passage: str) -> int | None:
        # Without `verbose=False` it warns of what is too long, which a check of ours tells better.
        return len(self._model.tokenizer(self._passage_prompt + passage, truncation=False, verbose=False)["input_ids"])

    def _encode(self, text: str, prompt: str) -> Vectors:
        """One text at a time: in a batch, the padding that its neighbours ask for changes a vector's last bits, and on a
        CPU it costs more than the batch saves."""
        vector = self._model.encode([text], prompt=prompt, normalize_embeddings=True, show_progress_bar=False)[0]
        return np.asarray(vector, dtype=np.float32)


def _saved_passage_prompt(saved: "dict[str, str | None]") -> str:
    return next((prompt for name in ("document", "passage", "corpus") if (prompt := saved.get(name))), "")
