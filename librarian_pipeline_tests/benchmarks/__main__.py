"""`python -m librarian_pipeline_tests.benchmarks`: tables of ratios, below 1 where ours is faster, and of figures."""

import argparse
import sys
from collections.abc import Callable

from librarian_pipeline_tests.benchmarks import accuracy, bm25, dense, memory, serving, transcription, updating
from librarian_pipeline_tests.benchmarks.measuring import Figure, Line, as_markdown, figures_as_markdown

RATIOS: dict[str, Callable[[bool], list[Line]]] = {
    module.NAME: module.run for module in (transcription, bm25, dense, updating, serving)
}
FIGURES: dict[str, Callable[[bool], list[Figure]]] = {module.NAME: module.run for module in (accuracy, memory)}


def main(arguments: list[str] | None = None) -> int:
    """Runs the benchmarks and returns the exit code."""
    options = _parser().parse_args(arguments)
    lines: list[Line] = []
    figures: list[Figure] = []
    for name in options.only or [*RATIOS, *FIGURES]:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        if name in RATIOS:
            lines.extend(RATIOS[name](options.quick))
        else:
            figures.extend(FIGURES[name](options.quick))
    tables = [as_markdown(lines)] if lines else []
    print("\n\n".join([*tables, *([figures_as_markdown(figures)] if figures else [])]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m librarian_pipeline_tests.benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=[*RATIOS, *FIGURES], help="one benchmark; may be repeated")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: whether it works, not how fast")
    return parser


if __name__ == "__main__":
    sys.exit(main())
