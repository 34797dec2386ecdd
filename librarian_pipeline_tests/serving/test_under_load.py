"""Clients search while snapshots are published and publishers are killed: no failure, and nothing from two snapshots."""

import multiprocessing
import os
import random
import re
import time
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline_tests.serving.clients import server_at
from librarian_pipeline_tests.serving.publishing import STEP_MS, Episode, numbered, publish

CLIENTS = 4
PUBLICATIONS = int(os.environ.get("TEST_PUBLICATIONS", "25"))
KILLED = 10
SEED = 20_261
QUERIES = ("salt on mules", "an owl in the snow", "zvonař", "a church bell")


@pytest.fixture
def context() -> ForkServerContext:
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["librarian_pipeline_tests.serving.publishing"])
    return found


def one_episode(number: int) -> dict[str, Episode]:
    return {"ep01": numbered(number)["ep01"]}


def publish_on(home: Path, first: int, last: int, done: Any) -> None:
    for number in range(first, last):
        publish(home, one_episode(number), str(number))
        done.value = number


def publish_all(home: Path, context: ForkServerContext, done: Any) -> int:
    """Returns how many publishers were killed."""
    generator, killed = random.Random(SEED), 0
    while done.value < PUBLICATIONS:
        child = context.Process(target=publish_on, args=(home, done.value + 1, PUBLICATIONS + 1, done))
        child.start()
        child.join(generator.uniform(0.05, 0.3) if killed < KILLED else None)
        if child.is_alive():
            child.kill()
            child.join()
            killed += 1
    return killed


def numbers_in(text: str, structured: dict[str, Any]) -> set[int]:
    """All that the result tells of the number of its snapshot: in texts, titles, and times."""
    places = structured.get("hits") or structured.get("passages") or []
    told = {int(number) for number in re.findall(r", (\d+)\.", text)}
    told |= {int(place["title"]) for place in places if place.get("title")}
    times = (place.get(name) for place in places for name in ("start_ms", "cited_ms"))
    return told | {time_ms % STEP_MS for time_ms in times if time_ms is not None}


async def search_until(client: Client, ended: anyio.Event, generator: random.Random) -> dict[str, set[int]]:
    """The numbers that were seen of each snapshot."""
    seen: dict[str, set[int]] = {}
    while not ended.is_set():
        if generator.random() < 0.2:
            result = await client.call_tool("episode_detail", {"episode_id": "ep01"})
        else:
            asked = {"query": generator.choice(QUERIES), "mode": generator.choice(MODES), "k": 10}
            result = await client.call_tool("search_podcast", asked)
        text = result.content[0].text
        assert not result.is_error, text
        assert result.structured_content["warning"] is None
        numbers = numbers_in(text, result.structured_content)
        assert len(numbers) == 1, f"a mixture: {text}"
        seen.setdefault(result.structured_content["snapshot"], set()).update(numbers)
        await anyio.sleep(0.03)  # clients that never rest would leave publishers no processor
    return seen


def test_four_clients_during_publications_with_publishers_killed_at_random_moments(
    tmp_path: Path, context: ForkServerContext
) -> None:
    publish(tmp_path, one_episode(0), "0")
    done = context.Value("i", 0)
    seen: list[dict[str, set[int]]] = []
    killed = 0

    async def serve_and_publish() -> None:
        nonlocal killed
        server, ended = server_at(tmp_path), anyio.Event()

        async def one_client(number: int) -> None:
            async with Client(server) as client:
                seen.append(await search_until(client, ended, random.Random(SEED + number)))

        async with anyio.create_task_group() as group:
            for number in range(CLIENTS):
                group.start_soon(one_client, number)
            killed = await anyio.to_thread.run_sync(publish_all, tmp_path, context, done)
            ended.set()

    started = time.monotonic()
    anyio.run(serve_and_publish)
    numbers = {
        snapshot: set().union(*(found.get(snapshot, set()) for found in seen)) for found in seen for snapshot in found
    }
    assert all(len(found) == 1 for found in numbers.values())
    assert len(seen) == CLIENTS
    assert killed >= min(KILLED, PUBLICATIONS // 10)
    assert len(numbers) > PUBLICATIONS / 10
    print(f"{len(numbers)} snapshots seen, {PUBLICATIONS} published, {killed} kills, {time.monotonic() - started:.1f} s")
