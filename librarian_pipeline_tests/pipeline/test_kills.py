"""Killed at any moment, again and again: the next run ends with the content of an undisturbed one."""

import multiprocessing
import os
import random
import shutil
import time
from pathlib import Path

from librarian_pipeline_tests.pipeline.small_archive import SENTENCES, add_notes, add_published, small_archive
from librarian_pipeline_tests.pipeline.updating import bring, content

KILLS = int(os.environ.get("TEST_KILLS", "10"))
SEED = 20_261


def edit(home: Path, number: int) -> None:
    """Something of everything, so that there is always work under way when the kill comes."""
    add_notes(home, "one", f"{SENTENCES[number % len(SENTENCES)]} Version {number}.")
    add_published(home, f"new{number % 3}", SENTENCES[number % 3 : 4 + number % 3])


def test_after_many_kills_at_random_moments_the_content_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    home = small_archive(tmp_path / "home")
    shutil.rmtree(home / "audio")
    # Each child starts from a process that has only imported things: quickly, and without threads that a fork would lose.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["librarian_pipeline_tests.pipeline.updating"])
    undisturbed_s = undisturbed_seconds(context, home)
    generator = random.Random(SEED)
    killed = 0
    for number in range(10 * KILLS):
        edit(home, number)
        child = context.Process(target=bring, args=(home,))
        child.start()
        time.sleep(generator.uniform(0, undisturbed_s))
        child.kill()
        child.join()
        killed += child.exitcode == -9  # else it had ended before
        if killed == KILLS:
            break
    assert killed == KILLS
    bring(home)
    clean = tmp_path / "clean"
    for folder in ("notes", "transcripts", "gold"):
        shutil.copytree(home / folder, clean / folder)
    shutil.copy2(home / "librarian.toml", clean)
    bring(clean)
    assert content(home) == content(clean)
    assert not list(home.glob("warehouse/**/.*.tmp"))


def undisturbed_seconds(context: "multiprocessing.context.ForkServerContext", home: Path) -> float:
    started = time.monotonic()
    child = context.Process(target=bring, args=(home,))
    child.start()
    child.join()
    assert child.exitcode == 0
    return time.monotonic() - started
