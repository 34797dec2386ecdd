"""What an update would cost, told before anything is sent, and refused above the limits."""

from collections.abc import Sequence
from dataclasses import dataclass

from librarian_pipeline.errors import UsageError
from librarian_pipeline.settings import AzureSettings

BYTES_PER_TOKEN = 2
"""Meant to be on the high side: the vocabulary of the model isn't on this machine, and its pieces are mostly longer."""


@dataclass(frozen=True)
class Estimate:
    """`documents` is what the index will hold, `tokens` and `texts` are what will be embedded."""

    documents: int
    texts: int
    tokens: int
    price_per_1000_tokens: float | None

    @property
    def cost(self) -> float | None:
        return None if self.price_per_1000_tokens is None else cost_of(self.tokens, self.price_per_1000_tokens)

    @property
    def line(self) -> str:
        cost = (
            "set [azure] price_per_1000_tokens to see a cost" if self.cost is None else f"cost at most about {self.cost:.4f}"
        )
        work = f"{self.documents} documents in the index, {self.texts} texts to embed, at most about {self.tokens} tokens"
        return f"{work}; {cost}"


def estimate(documents: int, texts: Sequence[str], settings: AzureSettings) -> Estimate:
    return Estimate(documents, len(texts), sum(map(tokens_of, texts)), settings.price_per_1000_tokens)


def cost_of(tokens: int, price_per_1000_tokens: float) -> float:
    """In the currency of the price."""
    return tokens * price_per_1000_tokens / 1_000


def tokens_of(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def require_within(found: Estimate, settings: AzureSettings) -> None:
    """Raises `UsageError`, before anything is sent, if the estimate is above a limit."""
    if found.documents > settings.max_documents:
        raise UsageError(
            f"{found.documents} documents are more than [azure] max_documents = {settings.max_documents}",
            "raise it if you mean it",
        )
    if found.tokens > settings.max_tokens:
        raise UsageError(
            f"about {found.tokens} tokens are more than [azure] max_tokens = {settings.max_tokens}",
            "raise it if you mean it",
        )
    if found.cost is not None and settings.max_cost is not None and found.cost > settings.max_cost:
        raise UsageError(
            f"a cost of about {found.cost:.4f} is more than [azure] max_cost = {settings.max_cost:g}",
            "raise it if you mean it",
        )


def require_unspent(tokens: int, settings: AzureSettings) -> None:
    """Raises `UsageError` once so many tokens were embedded, by the service's own count, that a limit is reached.

    An estimate may be wrong. What is spent may go above a limit by a batch, whose tokens are known only afterwards.
    """
    fix = "what was uploaded is kept; raise it if you mean it"
    if tokens >= settings.max_tokens:
        line = f"{tokens} tokens were embedded: [azure] max_tokens = {settings.max_tokens} are used up"
        raise UsageError(line, fix)
    if settings.price_per_1000_tokens is None or settings.max_cost is None:
        return
    cost = cost_of(tokens, settings.price_per_1000_tokens)
    if cost >= settings.max_cost:
        raise UsageError(f"{cost:.4f} was spent on embedding: [azure] max_cost = {settings.max_cost:g} is used up", fix)
