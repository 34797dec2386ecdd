"""The judgements and rankings in the formats of TREC, so that any tool can check the figures.

`qrels.txt` has a line `query 0 passage 1` for each passage that hits any span of the query: MRR and nDCG come from it.
`qrels_spans.txt` has a line `query span passage 1`, in the format of TREC's diversity tasks, with spans for subtopics: R@k
is their subtopic recall. `MODE.run` has the lines `query Q0 passage rank score mode`. The score is 1 / rank, not the mode's
own, because tools rank by score and break ties by the passage's id, which is not our order.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.judging import JudgedQuery
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.storage import atomic
from librarian_pipeline.storage.schemas import QRELS

QRELS_FILE = "qrels.txt"
SPAN_QRELS_FILE = "qrels_spans.txt"


@dataclass(frozen=True)
class Exported:
    """The files written, and the ranked queries that were left out because none of their spans is hit by any passage."""

    files: tuple[Path, ...]
    left_out: tuple[str, ...]


def qrels_table(queries: Iterable[JudgedQuery]) -> pa.Table:
    """Columns as in `schemas.QRELS`."""
    rows = [
        {"query_id": query.query_id, "span_idx": span_idx, "chunk_id": chunk_id}
        for query in queries
        for span_idx, hits in enumerate(query.hits_by_span)
        for chunk_id in sorted(hits)
    ]
    return pa.Table.from_pylist(rows, schema=QRELS)


def export_trec(rankings: pa.Table, qrels: pa.Table, folder: Path) -> Exported:
    """Writes the files into `folder`, which is made if it isn't there, over those of an earlier export.

    Raises `UsageError` where they can't be written.
    """
    judged = qrels.to_pylist()
    scorable = {row["query_id"] for row in judged}
    pairs = dict.fromkeys((row["query_id"], row["chunk_id"]) for row in judged)
    lines = {
        QRELS_FILE: [f"{query_id} 0 {chunk_id} 1" for query_id, chunk_id in pairs],
        SPAN_QRELS_FILE: [f"{row['query_id']} {row['span_idx'] + 1} {row['chunk_id']} 1" for row in judged],
        **{run_file(mode): [] for mode in MODES},
    }
    ranked = rankings.to_pylist()
    for row in ranked:
        if row["query_id"] in scorable:
            line = f"{row['query_id']} Q0 {row['chunk_id']} {row['rank']} {1 / row['rank']!r} {row['mode']}"
            lines[run_file(row["mode"])].append(line)
    files = tuple(folder / name for name in lines)
    try:
        for path, content in zip(files, lines.values(), strict=True):
            atomic.write_text("".join(f"{line}\n" for line in content), path)
    except OSError as error:
        raise UsageError(f"{folder} can't be written ({error.strerror})", "name another folder with --trec DIR") from error
    return Exported(files, tuple(dict.fromkeys(row["query_id"] for row in ranked if row["query_id"] not in scorable)))


def run_file(mode: str) -> str:
    return f"{mode}.run"
