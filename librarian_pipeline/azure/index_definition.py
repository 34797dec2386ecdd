"""The index: which fields it has, whose it is, and whether the one that is there can be used.

A field has one analyzer, and an archive may be in several languages. So there is a text field for each language that the
service has an analyzer for (`text_cs` with `cs.microsoft`), and `text` with the standard one for the others; a passage is in
exactly one of them. A query is then analyzed for each field by that field's analyzer, and words are as rare as they are in
their own language: what `bm25_stem` does on this machine. One index for each language would tear apart the ranking; one
analyzer for all would treat Czech as English, or the other way round.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from azure.search.documents.indexes.models import (
    BM25SimilarityAlgorithm,
    HnswAlgorithmConfiguration,
    HnswParameters,
    SearchField,
    SearchFieldDataType,
    SearchIndex,
    SimpleField,
    VectorSearch,
    VectorSearchProfile,
)

from librarian_pipeline.errors import UsageError
from librarian_pipeline.settings import AzureSettings

KEY, DIGEST, VECTOR, TEXT = "key", "digest", "vector", "text"
MARKER = "Passages of a podcast archive, kept by librarian-pipeline for "
"""The description of an index of ours begins so; then comes whose it is."""
VECTOR_TYPE = "Collection(Edm.Single)"
PROFILE, ALGORITHM = "exact-or-hnsw", "hnsw-cosine"
ANALYZED_LANGUAGES = frozenset(
    (
        *("bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "gu", "he", "hi", "hr", "hu", "id", "is"),
        *("it", "ja", "kn", "ko", "lt", "lv", "ml", "mr", "ms", "nb", "pa", "pl", "ro", "ru", "sk", "sl", "sv", "ta", "te"),
        *("nl", "th", "tr", "uk", "ur", "vi"),
    )
)
"""Those whose analyzer is their code and `.microsoft`."""


def text_field(language: str) -> str:
    """The field for texts in a language (ISO 639-1)."""
    return f"{TEXT}_{language}" if language in ANALYZED_LANGUAGES else TEXT


def owner_of(home: Path, settings: AzureSettings) -> str:
    """Who may write to the index: what the settings say, or a digest of the archive's folder, so as not to tell its name."""
    return settings.owner or f"folder-{hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:16]}"


def definition(name: str, owner: str, text_fields: Iterable[str], dimensions: int) -> SearchIndex:
    """The index as it is to be. Vectors are searched, but neither returned nor kept a second time for that."""
    plain = [
        SimpleField(name=KEY, type=SearchFieldDataType.STRING, key=True, filterable=True, sortable=True),
        SimpleField(name=DIGEST, type=SearchFieldDataType.STRING),
    ]
    vector = SearchField(
        name=VECTOR,
        type=VECTOR_TYPE,
        searchable=True,
        hidden=True,
        stored=False,
        vector_search_dimensions=dimensions,
        vector_search_profile_name=PROFILE,
    )
    return SearchIndex(
        name=name,
        description=f"{MARKER}{owner}",
        fields=[*plain, *map(_text, sorted(set(text_fields))), vector],
        similarity=BM25SimilarityAlgorithm(),
        vector_search=VectorSearch(
            algorithms=[HnswAlgorithmConfiguration(name=ALGORITHM, parameters=HnswParameters(metric="cosine"))],
            profiles=[VectorSearchProfile(name=PROFILE, algorithm_configuration_name=ALGORITHM)],
        ),
    )


def _text(name: str) -> SearchField:
    language = name.removeprefix(TEXT).removeprefix("_")
    return SearchField(
        name=name,
        type=SearchFieldDataType.STRING,
        searchable=True,
        filterable=False,
        sortable=False,
        facetable=False,
        hidden=False,
        analyzer_name=f"{language}.microsoft" if language else "standard.lucene",
    )


def require_ours(index: SearchIndex, owner: str) -> None:
    """Raises `UsageError` for an index that this archive didn't make: it would lose its documents to ours."""
    described = index.description or ""
    if described == f"{MARKER}{owner}":
        return
    if described.startswith(MARKER):
        fix = "name another with AZURE_SEARCH_INDEX; if the archive moved, set [azure] owner to the end of its description"
        raise UsageError(f"the index {index.name!r} belongs to another archive, and is not touched", fix)
    raise UsageError(
        f"the index {index.name!r} belongs to somebody else, and is not touched", "name another with AZURE_SEARCH_INDEX"
    )


def require_usable(index: SearchIndex, wanted: SearchIndex) -> None:
    """Raises `UsageError` where a field that is there can't become what it should be: such an index has to be made anew."""
    there = {field.name: field for field in index.fields}
    for field in wanted.fields:
        found = there.get(field.name)
        if found is None:
            if field.name in (KEY, VECTOR):
                raise _unusable(index, f"it has no field {field.name!r}")
        elif (found.type, found.analyzer_name) != (field.type, field.analyzer_name):
            raise _unusable(index, f"its field {field.name!r} is of another kind")
        elif found.vector_search_dimensions != field.vector_search_dimensions:
            told = f"its vectors have {found.vector_search_dimensions} dimensions, and [azure] dimensions says "
            raise _unusable(index, f"{told}{field.vector_search_dimensions}")


def text_fields_of(index: SearchIndex) -> list[str]:
    """Those that are there, in the order of their names."""
    return sorted(field.name for field in index.fields if field.name == TEXT or field.name.startswith(f"{TEXT}_"))


def _unusable(index: SearchIndex, why: str) -> UsageError:
    return UsageError(f"the index {index.name!r} can't be used: {why}", "name another with AZURE_SEARCH_INDEX, or delete it")
