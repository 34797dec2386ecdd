"""What was measured is what is served, however many ask at a time."""

import random
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.settings import ServingSettings
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.pipeline.small_archive import SENTENCES, small_archive, write_gold
from librarian_pipeline_tests.pipeline.updating import bring
from librarian_pipeline_tests.serving.publishing import flip_a_bit
from librarian_pipeline_tests.serving.ranks import client_of, measured_ranks, search, served_ranks

AT_A_TIME = 32


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Derived, measured and published: a query for every sentence that is said."""
    home = small_archive(tmp_path_factory.mktemp("served") / "home")
    shutil.rmtree(home / "audio")
    write_gold(home, {f"q{number}": (sentence, "one") for number, sentence in enumerate(SENTENCES)})
    assert bring(home).errors == {}
    return Workspace.open(home)


def test_every_gold_query_is_served_in_every_mode_at_the_ranks_that_were_measured(workspace: Workspace) -> None:
    snapshot = workspace.snapshots.current()
    assert snapshot is not None
    measured = measured_ranks(snapshot)
    assert len(measured) == len(MODES) * len(SENTENCES)
    assert all(measured[mode, "q0"] for mode in MODES)
    assert anyio.run(served_ranks, workspace, snapshot) == measured


def test_many_requests_at_a_time_get_what_each_gets_alone(workspace: Workspace) -> None:
    generator = random.Random(7)
    asked = [
        {"query": generator.choice(SENTENCES), "mode": generator.choice(MODES), "k": generator.randint(1, 10)}
        for _ in range(AT_A_TIME * 4)
    ]

    async def together() -> list[dict[str, Any]]:
        answers: dict[int, dict[str, Any]] = {}
        limiter = anyio.CapacityLimiter(AT_A_TIME)
        async with client_of(workspace) as client, anyio.create_task_group() as group:

            async def one(number: int) -> None:
                async with limiter:
                    answers[number] = await search(client, **asked[number])

            for number in range(len(asked)):
                group.start_soon(one, number)
        return [answers[number] for number in range(len(asked))]

    async def alone() -> list[dict[str, Any]]:
        async with client_of(workspace) as client:
            return [await search(client, **one) for one in asked]

    assert anyio.run(together) == anyio.run(alone)


def test_links_to_the_cited_second_are_given_where_an_address_is_set_up(workspace: Workspace) -> None:
    async def ask(serving: ServingSettings) -> list[tuple[int | None, str | None]]:
        async with client_of(workspace, serving) as client:
            hits = (await search(client, query=SENTENCES[4], k=50))["hits"]
            return [(hit["cited_ms"], hit["link"]) for hit in hits]

    with_links = anyio.run(ask, ServingSettings(audio_link="https://example.org/{episode_id}.mp3#t={second}"))
    assert (32_000, "https://example.org/one.mp3#t=32") in with_links
    assert all((cited is None) == (link is None) for cited, link in with_links)
    assert all(link is None for _, link in anyio.run(ask, ServingSettings()))


def test_a_damaged_snapshot_is_told_of_in_every_result(workspace: Workspace, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(workspace.home, home)
    copy = Workspace.open(home)

    async def ask() -> None:
        async with client_of(copy) as client:
            before = await search(client, query="salt")
            flip_a_bit(next((home / "published").glob("*/manifest.json")))
            assert await search(client, query="salt") == before  # it is in memory, whole
            (home / "published" / "CURRENT").write_text("nonsense\n")
            for tool, arguments in {
                "search_podcast": {"query": "salt"},
                "list_episodes": {},
                "episode_detail": {"episode_id": "one"},
            }.items():
                result = await client.call_tool(tool, arguments)
                assert result.structured_content["snapshot"] == before["snapshot"]
                assert "names no snapshot" in result.structured_content["warning"]
                assert "Warning: " in result.content[0].text

    anyio.run(ask)
