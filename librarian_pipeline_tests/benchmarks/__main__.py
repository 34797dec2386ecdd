"""`python -m librarian_pipeline_tests.benchmarks`: a Markdown table of ratios, below 1 where the pipeline is faster."""

import argparse
import sys
from collections.abc import Callable

from librarian_pipeline_tests.benchmarks import bm25, dense, transcription
from librarian_pipeline_tests.benchmarks.measuring import Line, as_markdown

BENCHMARKS: dict[str, Callable[[bool], list[Line]]] = {module.NAME: module.run for module in (transcription, bm25, dense)}


def main(arguments: list[str] | None = None) -> int:
    """Runs the benchmarks and returns the exit code."""
    options = _parser().parse_args(arguments)
    lines: list[Line] = []
    for name in options.only or BENCHMARKS:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        lines.extend(BENCHMARKS[name](options.quick))
    print(as_markdown(lines))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m librarian_pipeline_tests.benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), help="one benchmark; may be repeated")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: whether it works, not how fast")
    return parser


if __name__ == "__main__":
    sys.exit(main())
