"""The index follows the archive: only what changed is embedded and sent, and what a run left undone the next one does."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from filelock import FileLock

from librarian_pipeline.azure.account import read_account
from librarian_pipeline.azure.clients import index_client, search_client
from librarian_pipeline.azure.documents import key_of
from librarian_pipeline.azure.embedding import AzureEmbedder
from librarian_pipeline.azure.failures import ServiceError
from librarian_pipeline.azure.index_definition import owner_of
from librarian_pipeline.azure.stack import AzureStack
from librarian_pipeline.azure.synchronising import Index, Synchronised, synchronise
from librarian_pipeline.errors import UsageError
from librarian_pipeline.settings import AzureSettings
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.azure.fake_service import NAME, FakeService, Reply, failing
from librarian_pipeline_tests.retrieval.samples import chunks_of, passage

SETTINGS = AzureSettings(owner="one", dimensions=8, embed_batch=2, upload_batch=2, retries=1, max_wait_s=1, timeout_s=5)
Bring = Callable[..., Synchronised]


def many(n: int, **texts: str) -> pa.Table:
    return chunks_of(*(passage(f"ep:n{i:04d}", texts.get(f"n{i}", f"Passage number {i}.")) for i in range(n)))


@pytest.fixture
def bring(service: FakeService, workspace: Workspace) -> Bring:
    """Makes the index hold some passages."""

    def run(chunks: pa.Table, **changes: Any) -> Synchronised:
        settings = SETTINGS.model_copy(update=changes)
        account = read_account(workspace.home)
        index = Index(
            account,
            settings,
            owner_of(workspace.home, settings),
            search_client(account, settings),
            index_client(account, settings),
        )
        return synchronise(index, AzureEmbedder(account, settings), chunks, settings, lambda found: None)

    return run


def test_each_passage_is_a_document(bring: Bring, service: FakeService) -> None:
    found = bring(many(5))
    assert (found.documents, found.uploaded, found.deleted, found.unchanged) == (5, 5, 0, 0)
    assert set(service.documents) == {key_of(f"ep:n{i:04d}") for i in range(5)}


def test_a_second_update_sends_nothing(bring: Bring, service: FakeService) -> None:
    bring(many(5))
    sent = len(service.of("index")), len(service.of("embed")), len(service.of("put"))
    found = bring(many(5))
    assert (found.uploaded, found.unchanged, found.tokens) == (0, 5, 0)
    assert (len(service.of("index")), len(service.of("embed")), len(service.of("put"))) == sent


def test_only_what_changed_is_embedded_and_sent(bring: Bring, service: FakeService) -> None:
    bring(many(5))
    service.requests.clear()
    assert bring(many(6, n2="Another text.")).uploaded == 2
    assert sorted(service.uploads()) == sorted([key_of("ep:n0002"), key_of("ep:n0005")])
    assert [text for request in service.of("embed") for text in request.body["input"]] == [
        "Another text.",
        "Passage number 5.",
    ]


def test_what_left_is_deleted(bring: Bring, service: FakeService) -> None:
    bring(many(5))
    assert bring(many(3)).deleted == 2
    assert set(service.documents) == {key_of(f"ep:n{i:04d}") for i in range(3)}


def test_an_archive_without_passages_deletes_nothing(bring: Bring, service: FakeService) -> None:
    bring(many(2))
    with pytest.raises(UsageError, match="nothing is deleted"):
        bring(many(0))
    assert len(service.documents) == 2


@pytest.mark.parametrize("page", [1, 2, 3, 1_000])
def test_the_listing_goes_on_over_the_pages_of_the_service(bring: Bring, service: FakeService, page: int) -> None:
    bring(many(7))
    service.page = page
    assert bring(many(7)).unchanged == 7


def test_the_listing_goes_on_beyond_what_the_service_gives_at_once(
    bring: Bring, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("librarian_pipeline.azure.synchronising.PAGE", 3)
    for n in (2, 3, 4, 6, 7):
        bring(many(n))
        assert bring(many(n)).unchanged == n


def test_an_upload_that_was_cut_off_goes_on_where_it_stopped(bring: Bring, service: FakeService) -> None:
    service.faults["index"] += [lambda request: None, *[failing(500)] * 2]
    with pytest.raises(ServiceError, match="uploading"):
        bring(many(6))
    assert len(service.documents) == 2
    service.requests.clear()
    assert bring(many(6)).unchanged == 2
    assert len(service.uploads()) == len(set(service.uploads())) == 4
    assert sum(len(request.body["input"]) for request in service.of("embed")) == 4


def test_a_partial_failure_that_passes_is_sent_again(bring: Bring, service: FakeService) -> None:
    refused = key_of("ep:n0001")

    def busy(request: Any) -> Reply:
        results = [
            {"key": action["key"], "status": action["key"] != refused, "statusCode": 503, "errorMessage": "busy"}
            for action in request.body["value"]
        ]
        for action in request.body["value"]:
            if action["key"] != refused:
                service._act(action)
        return Reply(207, {"value": results})

    service.faults["index"].append(busy)
    assert bring(many(2)).uploaded == 2
    assert refused in service.documents
    assert service.of("index")[1].body["value"][0]["key"] == refused
    assert len(service.of("index")[1].body["value"]) == 1


def test_a_document_that_is_refused_is_named_and_the_others_are_sent(bring: Bring, service: FakeService) -> None:
    service.refused_keys = {key_of("ep:n0001")}
    with pytest.raises(ServiceError, match=r"1 documents were not taken .*ep:n0001: 400 no room"):
        bring(many(6))
    assert len(service.documents) == 5
    service.refused_keys.clear()
    assert bring(many(6)).unchanged == 5


def test_a_document_that_the_service_says_nothing_of_is_not_taken(bring: Bring, service: FakeService) -> None:
    service.faults["index"] += [lambda request: Reply(200, {"value": []})] * 2
    with pytest.raises(ServiceError, match="no answer for it"):
        bring(many(2))


def test_a_batch_that_is_too_large_is_sent_in_halves(bring: Bring, service: FakeService) -> None:
    service.limit_bytes = 700
    assert bring(many(6), upload_batch=6).uploaded == 6
    assert len(service.documents) == 6


def test_a_single_document_that_is_too_large_is_told(bring: Bring, service: FakeService) -> None:
    service.limit_bytes = 50
    with pytest.raises(ServiceError, match="too large"):
        bring(many(1))


@pytest.mark.parametrize("description", [None, "", "Our products", "Passages of a podcast archive"])
def test_an_index_of_somebody_else_is_not_touched(bring: Bring, service: FakeService, description: str | None) -> None:
    theirs = {"name": NAME, "description": description, "fields": [{"name": "key", "type": "Edm.String", "key": True}]}
    service.indexes[NAME] = dict(theirs)
    with pytest.raises(UsageError, match="somebody else"):
        bring(many(2))
    assert service.indexes[NAME] == theirs
    assert {request.operation for request in service.requests} == {"get"}


def test_the_index_of_another_archive_is_not_touched(bring: Bring, service: FakeService) -> None:
    bring(many(3), owner="other")
    service.requests.clear()
    with pytest.raises(UsageError, match="another archive"):
        bring(many(2))
    assert {request.operation for request in service.requests} == {"get"}


def test_an_index_that_somebody_makes_meanwhile_is_not_overwritten(bring: Bring, service: FakeService) -> None:
    theirs = {"name": NAME, "description": "theirs", "fields": [], "@odata.etag": '"x"'}

    def meanwhile(request: Any) -> None:
        service.indexes[NAME] = theirs

    service.faults["put"].append(meanwhile)
    with pytest.raises(ServiceError, match="somebody else"):
        bring(many(2))
    assert service.indexes[NAME] is theirs


def test_by_default_an_index_belongs_to_the_folder_of_the_archive(workspace: Workspace, tmp_path: Any) -> None:
    here, there = owner_of(workspace.home, AzureSettings()), owner_of(tmp_path / "moved", AzureSettings())
    assert here != there
    assert workspace.home.name not in here
    assert owner_of(tmp_path, AzureSettings(owner="ours")) == "ours"


def test_an_index_with_vectors_of_another_size_is_refused(bring: Bring, service: FakeService) -> None:
    bring(many(2))
    with pytest.raises(UsageError, match=r"8 dimensions, and .* says 16"):
        bring(many(2), dimensions=16)
    assert len(service.of("embed")) == 1


def test_a_deployment_that_gives_vectors_of_another_size_is_told(bring: Bring, service: FakeService) -> None:
    service.dimensions_given = 5
    with pytest.raises(ServiceError, match=r"vectors of 5 dimensions, and .* says 8"):
        bring(many(2))
    assert service.documents == {}


def test_a_language_that_comes_later_gets_a_field_and_the_others_keep_theirs(bring: Bring, service: FakeService) -> None:
    bring(chunks_of(passage("a:n000", "Salt.")))
    bring(chunks_of(passage("a:n000", "Salt."), passage("b:n000", "Sůl.", "cs")))
    names = [field["name"] for field in service.indexes[NAME]["fields"]]
    assert sorted(names) == ["digest", "key", "text_cs", "text_en", "vector"]
    assert [request.headers.get("if-match") is not None for request in service.of("put")] == [False, True]


def test_a_deleted_index_is_made_anew(bring: Bring, service: FakeService) -> None:
    bring(many(3))
    service.indexes.clear()
    service.documents.clear()
    assert bring(many(3)).uploaded == 3


def test_an_index_that_is_deleted_under_a_search_is_told(stack: AzureStack, service: FakeService) -> None:
    stack.update(lambda found: None)
    searcher = stack.searcher()
    service.indexes.clear()
    with pytest.raises(ServiceError, match="is gone"):
        searcher.search("salt", "azure_bm25")


def test_nothing_is_measured_in_an_index_that_is_behind(stack: AzureStack, service: FakeService) -> None:
    stack.update(lambda found: None)
    service.documents.popitem()
    with pytest.raises(ServiceError, match="1 documents of the index 'podcast' are not those of the archive"):
        stack.searcher()


def test_nothing_is_measured_in_an_index_that_has_more_than_the_archive(stack: AzureStack, service: FakeService) -> None:
    stack.update(lambda found: None)
    service.documents["pZXh0cmE"] = {"key": "pZXh0cmE", "text_en": "salt", "digest": "x"}
    with pytest.raises(ServiceError, match="are not those of the archive"):
        stack.searcher()


def test_two_updates_at_a_time_are_one_too_many(stack: AzureStack, workspace: Workspace, service: FakeService) -> None:
    with FileLock(workspace.warehouse.root / ".azure.lock"), pytest.raises(UsageError, match="another update"):
        stack.update(lambda found: None)
    assert service.requests == []


def test_what_is_searchable_only_after_a_while_is_waited_for(stack: AzureStack, service: FakeService) -> None:
    stack.update(lambda found: None)
    service.faults["search"].append(lambda request: Reply(200, {"value": []}))
    assert stack.searcher().search("salt", "azure_bm25")
