"""The recipe of each asset: everything besides its inputs that can change its output, and nothing else.

`CODE` counts up when the code behind an asset is changed so that its output changes: for `transcripts` that is the decoding
of audio as well.
"""

from importlib.metadata import version

from librarian_pipeline.archive.layout import EpisodeFiles
from librarian_pipeline.retrieval.embedders import embedder_recipe, query_recipe
from librarian_pipeline.settings import Settings
from librarian_pipeline.speech import transcribe
from librarian_pipeline.storage.provenance import Recipe
from librarian_pipeline.text.lemmas import normalizer_recipe

CODE = {
    "audio": 1,
    "notes": 1,
    "transcripts": 2,
    "chunks": 1,
    "embeddings": 1,
    "episodes": 1,
    "bm25_raw_index": 1,
    "bm25_stem_index": 1,
    "vector_index": 1,
    "gold_set": 1,
    "eval_scores": 1,
}


def transcript_source(files: EpisodeFiles, settings: Settings) -> str:
    """Where an episode's transcript comes from: `audio`, `published` or `none`."""
    published_wins = files.audio is None or settings.transcripts.prefer == "published"
    if files.published is not None and published_wins:
        return "published"
    return "audio" if files.audio is not None else "none"


def recipe(asset: str, settings: Settings, files: EpisodeFiles | None = None) -> Recipe:
    """The recipe of an asset, for one episode where it has partitions.

    Raises `ModelNotFoundError` if the recipe names a model whose weights are not on this machine.
    """
    return {"code": CODE[asset], **_particulars(asset, settings, files)}


def _particulars(asset: str, settings: Settings, files: EpisodeFiles | None) -> Recipe:
    match asset:
        case "audio":
            return {"av": version("av")}
        case "notes":
            return {"py3langid": version("py3langid")}
        case "transcripts":
            return _transcript_recipe(settings, files)
        case "chunks":
            return settings.chunks.model_dump()
        case "embeddings":
            return embedder_recipe(settings.embeddings)
        case "bm25_raw_index":
            return settings.bm25.model_dump()
        case "bm25_stem_index":
            return {**settings.bm25.model_dump(), **normalizer_recipe(settings.normalizer.name)}
        case "eval_scores":
            return {
                **settings.fusion.model_dump(),
                **settings.evaluation.model_dump(),
                **query_recipe(settings.embeddings),
                "ir_measures": version("ir_measures"),
            }
        case _:
            return {}


def _transcript_recipe(settings: Settings, files: EpisodeFiles | None) -> Recipe:
    source = transcript_source(files, settings) if files is not None else "audio"
    if source == "audio":
        return {"source": source, **transcribe.recipe(settings.whisper, settings.transcripts, settings.checks)}
    if source == "published":
        return {"source": source, "py3langid": version("py3langid")}
    return {"source": source}
