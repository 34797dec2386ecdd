"""The recipe of each asset: everything besides its inputs that can change its output, and nothing else.

`CODE` counts up when the code behind an asset is changed so that its output changes: for `transcripts` that is the decoding
of audio as well.
"""

from importlib.metadata import version

from librarian_pipeline.archive.layout import EpisodeFiles
from librarian_pipeline.lineage.ranked_from import GATES
from librarian_pipeline.retrieval.embedders import embedder_recipe, query_recipe
from librarian_pipeline.retrieval.search_settings import search_settings
from librarian_pipeline.settings import Settings
from librarian_pipeline.speech import transcribe
from librarian_pipeline.storage.manifest import CONTRACT
from librarian_pipeline.storage.provenance import Recipe
from librarian_pipeline.storage.schemas import columns_fingerprint
from librarian_pipeline.text.lemmas import normalizer_recipe

CODE = {
    "audio": 1,
    "notes": 1,
    "transcripts": 1,
    "chunks": 1,
    "embeddings": 2,
    "episodes": 1,
    "bm25_raw_index": 1,
    "bm25_stem_index": 1,
    "vector_index": 1,
    "gold_set": 1,
    "eval_scores": 2,
    "published_index": 1,
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
    return {"code": CODE[asset], "columns": columns_fingerprint(asset), **_particulars(asset, settings, files)}


def _particulars(asset: str, settings: Settings, files: EpisodeFiles | None) -> Recipe:
    match asset:
        case "audio":
            return {"av": version("av"), **_audio_limits(settings)}
        case "notes":
            from_tags = files is not None and files.audio is not None
            libraries = ("py3langid", "markdown-it-py", "PyYAML", *(("mutagen",) if from_tags else ()))
            return {library: version(library) for library in libraries}
        case "episodes":
            return {"mutagen": version("mutagen"), **settings.checks.model_dump()}
        case "transcripts":
            return _transcript_recipe(settings, files)
        case "chunks":
            return settings.chunks.model_dump()
        case "embeddings" | "vector_index":
            # The index names the model that a query needs: other weights may give equal vectors, which would start nothing.
            return embedder_recipe(settings.embeddings)
        case "bm25_raw_index":
            return settings.bm25.model_dump()
        case "bm25_stem_index":
            return {**settings.bm25.model_dump(), **normalizer_recipe(settings.normalizer.name)}
        case "eval_scores":
            return {
                **settings.fusion.model_dump(),
                **settings.retrieval.model_dump(),
                **settings.evaluation.model_dump(),
                **query_recipe(settings.embeddings),
                **{f"{GATES}{key}": value for key, value in settings.gates.model_dump().items()},
            }
        case "published_index":
            return {"contract": CONTRACT, **search_settings(settings)}
        case _:
            return {}


def _audio_limits(settings: Settings) -> Recipe:
    """How long a file is waited for changes when it is read, but not what comes out of it in the end."""
    return settings.audio.model_dump(exclude={"settle_s"})


def _transcript_recipe(settings: Settings, files: EpisodeFiles | None) -> Recipe:
    source = transcript_source(files, settings) if files is not None else "audio"
    if source == "audio":
        heard = transcribe.recipe(settings.whisper, settings.transcripts, settings.checks)
        return {"source": source, **_audio_limits(settings), **heard}
    if source == "published":
        # Without audio there is no other edition to compare with.
        has_audio = files is not None and files.audio is not None
        gap = {"max_edition_gap_s": settings.checks.max_edition_gap_s} if has_audio else {}
        return {"source": source, "py3langid": version("py3langid"), **gap}
    return {"source": source}
