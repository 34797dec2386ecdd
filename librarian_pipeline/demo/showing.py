"""A demonstration as people read it."""

from collections.abc import Iterator

from librarian_pipeline.answering.showing import answer_lines
from librarian_pipeline.demo.playing import Showing

KEPT = {True: "as promised", False: "NOT AS PROMISED"}


def lines_of(showing: Showing, number: int) -> Iterator[str]:
    demo = showing.demo
    yield f"{number}. {demo.title}"
    yield f"   {demo.tells}"
    yield f"   > {demo.query}   ({showing.mode})"
    for hit, excerpt in showing.hits:
        yield f"   {hit.hit.rank}. {hit.citation.text}: {' '.join(excerpt.split())}"
    if showing.answer is not None:
        yield from (f"   {line}" for line in answer_lines(showing.answer))
    for promise in showing.promises:
        yield f"   {KEPT[promise.kept]}: {promise.line}"
    yield ""
