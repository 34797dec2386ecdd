"""Write a made-up archive: published transcripts, notes and a gold set. The same options give the same bytes."""

import argparse
import sys
from pathlib import Path

from librarian_pipeline_tests.synthetic.archive import MINUTES, SEED, write_archive


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        write_archive(options.dir, options.episodes, seed=options.seed, minutes=options.minutes)
    except FileExistsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{options.episodes} episodes in {options.dir}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m librarian_pipeline_tests.synthetic", description=__doc__)
    parser.add_argument("dir", type=Path, help="a folder that isn't there yet, or is empty")
    parser.add_argument("--episodes", type=_positive, default=55, help="how many (default: %(default)s)")
    parser.add_argument("--minutes", type=_positive, default=MINUTES, help="of each episode (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="another one gives another archive (default: %(default)s)")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few")
    return number


if __name__ == "__main__":
    sys.exit(main())
