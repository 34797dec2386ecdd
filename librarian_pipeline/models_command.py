"""What `librarian models` shows: each model in use, where its weights come from, its digest checked."""

from librarian_pipeline.console import print_lines, print_table
from librarian_pipeline.retrieval.embedders import embedder_card
from librarian_pipeline.retrieval.embedders.registry import FALLBACK, NAMES
from librarian_pipeline.settings import Settings
from librarian_pipeline.speech.weights import resolve_whisper


def print_models(settings: Settings) -> None:
    """Raises `ModelNotFoundError` for weights that are not there, or not what they should be."""
    _, whisper = resolve_whisper(settings.whisper.model)
    card = embedder_card(settings.embeddings)
    print_table(
        ["for", "model", "from", "sha256, checked"],
        [
            ["speech to text", whisper.name, whisper.source, whisper.digest[:16]],
            ["embeddings", card.model, card.source + (" (a fallback)" if card.is_fallback else ""), card.digest[:16]],
        ],
    )
    others = [f'"{name}"' for name in NAMES if name != card.model]
    print_lines(
        [
            "",
            'others: [whisper] model = "tiny.en", a folder, or a hub name;',
            f'[embeddings] model = {", ".join(others)}, or "st:" and a folder or hub name; "{FALLBACK}" has no weights',
        ]
    )
