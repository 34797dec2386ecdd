"""Build the sample archive from its scripts: audio or published transcripts, timelines, gold set.

Notes are written by hand, straight into the archive; their times are checked against the timelines.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .gold import build_gold
from .published import write_transcript
from .scripts import SampleError, Script, episode_ids, load_script, write_times
from .speech import check_tools, render_audio

# Not resolved: a linked package must still find the archive beside it.
REPO_ROOT = Path(__file__).absolute().parents[2]


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = argparse.ArgumentParser(
        prog="python -m librarian_pipeline_tests.sample_archive",
        description=__doc__,
        epilog="Audio needs flite, festival (with its us-slt-hts and Czech voices), sox and ffmpeg; "
        "published transcripts and --gold-only need none of them.",
    )
    made.add_argument("episodes", nargs="*", metavar="epNN", help="episodes to build (default: every script)")
    made.add_argument(
        "--out", type=Path, default=REPO_ROOT / "data", help="archive folder, with the notes in it (default: %(default)s)"
    )
    made.add_argument("--gold-only", action="store_true", help="only resolve queries/ into gold/gold_set.json")
    return made


def build_episode(script: Script, archive: Path) -> str:
    """Build one episode and its timeline; return a line that says what was made."""
    is_audio = script.render == "opus"
    target = archive / ("audio" if is_audio else "transcripts") / f"{script.id}.{script.render}"
    target.parent.mkdir(parents=True, exist_ok=True)
    times = render_audio(script, target) if is_audio else write_transcript(script, target)
    write_times(script.id, times)
    seconds = times[-1].end_ms / 1000
    return f"{target.name}: {len(times)} sentences, {seconds:.0f} s, {target.stat().st_size // 1024} KiB"


def build_episodes(episodes: list[str], archive: Path) -> None:
    """Build episodes, after making sure that all of them can be built."""
    scripts = [load_script(episode) for episode in episodes]
    for script in scripts:
        if script.render == "opus":
            check_tools(script)
    for script in scripts:
        print(build_episode(script, archive), flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = parser().parse_args(arguments)
    try:
        if not options.gold_only:
            build_episodes(options.episodes or episode_ids(), options.out)
        print(build_gold(options.out))
    except SampleError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
