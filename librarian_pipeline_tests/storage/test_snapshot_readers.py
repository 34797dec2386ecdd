"""Readers while snapshots are published and publishers are killed: none meets a failure, or a mixture."""

import multiprocessing
import os
import random
import time
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from librarian_pipeline_tests.storage.publishing import numbers_in, publish, snapshots_at

READERS = 4
PUBLICATIONS = int(os.environ.get("TEST_PUBLICATIONS", "25"))
KILLED = 20
SEED = 20_261


@pytest.fixture
def context() -> ForkServerContext:
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["librarian_pipeline_tests.storage.publishing"])
    return found


def read_until(home: Path, ended: Any, answers: Any) -> None:
    """Counts what it reads; a sentence tells what went wrong."""
    n_read, seen, snapshots = 0, set(), snapshots_at(home)
    while not ended.is_set():
        try:
            snapshot = snapshots.current()
            assert snapshot is not None, "nothing was served"
            numbers = numbers_in(snapshot)
            assert len(numbers) == 1, f"a mixture: {numbers}"
        except Exception as error:
            answers.put(f"{type(error).__name__}: {error}")
            return
        time.sleep(0.002)  # four that never rest would leave publishers no processor
        n_read += 1
        seen |= numbers
    answers.put((n_read, len(seen)))


def publish_on(home: Path, first: int, last: int, done: Any) -> None:
    for number in range(first, last):
        publish(home, number)
        done.value = number


def test_readers_during_publications_with_publishers_killed_at_random_moments(
    tmp_path: Path, context: ForkServerContext
) -> None:
    publish(tmp_path, 0)
    ended, answers, done = context.Event(), context.Queue(), context.Value("i", 0)
    readers = [context.Process(target=read_until, args=(tmp_path, ended, answers)) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    generator, killed = random.Random(SEED), 0
    while done.value < PUBLICATIONS:
        child = context.Process(target=publish_on, args=(tmp_path, done.value + 1, PUBLICATIONS + 1, done))
        child.start()
        child.join(generator.uniform(0.05, 0.8) if killed < KILLED else None)
        if child.is_alive():
            child.kill()
            child.join()
            killed += 1
    ended.set()
    found = [answers.get(timeout=60) for _ in readers]
    for reader in readers:
        reader.join()
    assert [answer for answer in found if isinstance(answer, str)] == []
    assert killed >= min(KILLED, PUBLICATIONS // 10)
    assert all(n_read > 10 and n_seen > 2 for n_read, n_seen in found), found
    print(f"{sum(n for n, _ in found)} reads by {READERS} readers, {PUBLICATIONS} publications, {killed} kills")
    publish(tmp_path, PUBLICATIONS + 1)
    assert not list((tmp_path / "published").glob(".tmp-*"))


def publish_often(home: Path, numbers: list[int]) -> None:
    for number in numbers:
        publish(home, number)


def test_two_publishers_at_once_both_come_through(tmp_path: Path, context: ForkServerContext) -> None:
    children = [context.Process(target=publish_often, args=(tmp_path, list(range(n, 20, 2)))) for n in (0, 1)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    snapshot = snapshots_at(tmp_path).current()
    assert snapshot is not None
    assert numbers_in(snapshot) <= {18, 19}
    assert len(snapshots_at(tmp_path).history()) == 3


def test_the_lock_of_a_killed_publisher_is_free(tmp_path: Path, context: ForkServerContext) -> None:
    done = context.Value("i", 0)
    child = context.Process(target=publish_on, args=(tmp_path, 1, 10_000, done))
    child.start()
    while done.value < 1:
        time.sleep(0.01)
    child.kill()
    child.join()
    started = time.monotonic()
    publish(tmp_path, 20_000)
    assert time.monotonic() - started < 5
