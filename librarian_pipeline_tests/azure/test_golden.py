"""The bodies of the requests, as the real SDKs send them.

They were reviewed against the published description of the REST API of Azure AI Search, version 2026-04-01 (`search.json` in
the folder `specification/search/data-plane/Search` of Azure/azure-rest-api-specs), which is the version that
azure-search-documents 12.0.0 talks by default; for embeddings, against that of Azure OpenAI, version 2024-10-21
(`inference.json`, in the same repository). `SCHEMA` holds what they say of the objects that are sent: the properties that
matter here, and which of them must be there.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from librarian_pipeline.azure.account import Account, read_account
from librarian_pipeline.azure.clients import index_client, search_client
from librarian_pipeline.azure.embedding import AzureEmbedder
from librarian_pipeline.azure.searching import AZURE_MODES, AzureSearcher
from librarian_pipeline.azure.synchronising import Index, synchronise
from librarian_pipeline.retrieval.modes import passages_of
from librarian_pipeline.settings import AzureSettings
from librarian_pipeline_tests.azure.fake_service import FakeService
from librarian_pipeline_tests.retrieval.samples import chunks_of, passage

GOLDEN = Path(__file__).parent / "golden"
SETTINGS = AzureSettings(owner="golden", dimensions=4, retries=0)
CHUNKS = chunks_of(
    passage("ep01:n000", "The keeper polished the lamps.", heading="Lamps"),
    passage("ep02:n000", "V Brně opravují tramvaje.", "cs"),
)
QUERY = "Brno (lamps) -tram"

SCHEMA: dict[str, tuple[set[str], set[str]]] = {
    "SearchIndex": (
        {"name", "fields"},
        {"name", "description", "fields", "similarity", "vectorSearch", "scoringProfiles", "suggesters", "analyzers"},
    ),
    "SearchField": (
        {"name", "type"},
        {
            *("name", "type", "key", "retrievable", "stored", "searchable", "filterable", "sortable", "facetable"),
            *("analyzer", "dimensions", "vectorSearchProfile"),
        },
    ),
    "VectorSearch": (set(), {"profiles", "algorithms", "vectorizers", "compressions"}),
    "SearchRequest": (
        set(),
        {
            *("filter", "orderby", "queryType", "scoringStatistics", "search", "searchFields", "searchMode", "select"),
            *("skip", "top", "vectorQueries"),
        },
    ),
    "VectorQuery": ({"kind"}, {"k", "fields", "exhaustive", "oversampling", "weight", "kind", "vector"}),
    # `model` is none of the published properties: openai-python sends it always, and the deployment is in the address.
    "Embeddings": ({"input"}, {"input", "model", "dimensions", "encoding_format", "user", "input_type"}),
}


@pytest.fixture
def sent(service: FakeService, tmp_path: Path) -> dict[str, Any]:
    """Every kind of body, by the name of its file."""
    account = read_account(tmp_path)
    index, embedder = _open(account)
    synchronise(index, embedder, CHUNKS, SETTINGS, lambda found: None)
    index.listing()
    synchronise(index, embedder, CHUNKS.slice(0, 1), SETTINGS, lambda found: None)
    uploaded, deleted = (request.body for request in service.of("index"))
    for action in uploaded["value"]:
        action["digest"] = "DIGEST"  # it changes with the port that the service happens to have
    bodies = {
        "index_definition": service.of("put")[0].body,
        "embeddings": service.of("embed")[0].body,
        "upload": uploaded,
        "deletion": deleted,
        "listing": service.of("search")[0].body,
    }
    text_fields = ["text_cs", "text_en"]
    service.documents.clear()
    searcher = AzureSearcher(
        account, search_client(account, SETTINGS), embedder, text_fields, passages_of(CHUNKS), depth=100
    )
    for mode in AZURE_MODES:
        searcher.search(QUERY, mode, 10)
        bodies[mode] = service.of("search")[-1].body
    return bodies


def _open(account: Account) -> tuple[Index, AzureEmbedder]:
    clients = search_client(account, SETTINGS), index_client(account, SETTINGS)
    return Index(account, SETTINGS, "golden", *clients), AzureEmbedder(account, SETTINGS)


@pytest.mark.parametrize("name", ["index_definition", "embeddings", "upload", "deletion", "listing", *AZURE_MODES])
def test_each_body_is_the_golden_one(sent: dict[str, Any], name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    assert sent[name] == golden


def test_the_golden_bodies_hold_what_the_published_schema_knows() -> None:
    bodies = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in GOLDEN.glob("*.json")}
    found = [problem for name, kind, body in _objects(bodies) for problem in _problems(name, kind, body)]
    assert found == []


def test_a_field_that_is_searched_is_a_text_field_or_the_vector(sent: dict[str, Any]) -> None:
    fields = sent["index_definition"]["fields"]
    searchable = {field["name"] for field in fields if field.get("searchable")}
    assert searchable == {"text_cs", "text_en", "vector"}
    assert {field["analyzer"] for field in fields if field["name"].startswith("text")} == {"cs.microsoft", "en.microsoft"}


def test_the_versions_of_both_services_are_named_in_every_request(sent: dict[str, Any], service: FakeService) -> None:
    found = {(request.operation == "embed", request.api_version) for request in service.requests}
    assert found == {(True, "2024-10-21"), (False, "2026-04-01")}


def test_the_deployment_is_in_the_address_of_the_embeddings(sent: dict[str, Any], service: FakeService) -> None:
    assert {request.path for request in service.of("embed")} == {"/openai/deployments/embed-small/embeddings"}


def test_an_index_is_made_only_where_there_is_none(sent: dict[str, Any], service: FakeService) -> None:
    (put,) = service.of("put")
    assert put.headers["if-none-match"] == "*"


def _objects(bodies: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    index = bodies["index_definition"]
    yield "index_definition", "SearchIndex", index
    yield "index_definition", "VectorSearch", index["vectorSearch"]
    for one in index["fields"]:
        yield one["name"], "SearchField", one
    for name in ("listing", *AZURE_MODES):
        yield name, "SearchRequest", bodies[name]
        for query in bodies[name].get("vectorQueries", []):
            yield name, "VectorQuery", query
    yield "embeddings", "Embeddings", bodies["embeddings"]


def _problems(name: str, kind: str, body: dict[str, Any]) -> list[str]:
    required, known = SCHEMA[kind]
    unknown = [f"{name}: {kind} has no {key}" for key in body if key not in known]
    return unknown + [f"{name}: {kind} needs {key}" for key in required if key not in body]
