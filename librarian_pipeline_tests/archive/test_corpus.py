"""A corpus of random and mutated files, 2,400 in all: none crashes a reader, and what is left out is counted."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from librarian_pipeline.archive.notes import read_front_matter, read_notes
from librarian_pipeline.archive.published import PublishedTranscript, read_published
from librarian_pipeline.archive.timecodes import MAX_MS
from librarian_pipeline.errors import SourceError
from librarian_pipeline.storage.schemas import NOTES, TRANSCRIPTS

corpus = settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))

SPOKEN = ["tea", "Tea is hot.", "the kettle went cold", "went cold and nobody", "[BLANK_AUDIO]", "(laughs)", "♪", "", "Yes."]
MARKUP = [
    ">> ",
    "- ",
    "Ola: ",
    "<v Ola>",
    "<v.loud Jan &amp; Co>",
    "<c>",
    "</c>",
    "<00:01.500>",
    "&lt;",
    "&#0;",
    "{\\an8}",
    "\0",
]
spoken = st.lists(st.sampled_from(SPOKEN + MARKUP) | st.text(max_size=5), min_size=1, max_size=4).map(" ".join)
seconds = st.integers(0, 30) | st.integers(0, 500_000)
ends_after = st.integers(-3, 5) | st.sampled_from([0, 45, 150])
line_ends = st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\r\n\n"])
encodings = st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16"])


@st.composite
def times(draw: st.DrawFn) -> tuple[str, str]:
    start = draw(seconds)
    form = draw(
        st.sampled_from(["{h:02}:{m:02}:{s:02}.{ms:03}", "{h:02}:{m:02}:{s:02},{ms:03}", "{m:02}:{s:02}", "{s}", "-{s}"])
    )
    ms = draw(st.sampled_from([0, 0, 500, 1_000]))
    stamps = []
    for time in (start, max(0, start + draw(ends_after))):
        minutes, second = divmod(time, 60)
        stamps.append(form.format(h=minutes // 60, m=minutes % 60, s=second, ms=ms))
    return stamps[0], stamps[1]


@st.composite
def caption_files(draw: st.DrawFn, head: str) -> str:
    repeated = draw(st.integers(1, 6))
    found = draw(st.lists(st.tuples(times(), spoken), max_size=8)) * repeated
    blank, indexed = draw(line_ends), draw(st.booleans())
    blocks = [
        f"{index if indexed else ''}{blank if indexed else ''}{start} --> {end}\n{text}"
        for index, ((start, end), text) in enumerate(found)
    ]
    return f"{head}\n\n" * bool(head) + (blank * 2).join(blocks)


json_values = st.none() | st.booleans() | st.floats() | st.integers(-5, 10**12) | st.sampled_from(["1.5", "soon"]) | spoken
json_segments = st.fixed_dictionaries(
    {},
    optional={
        "startTime": st.floats(0, 60) | st.integers(0, 60) | json_values,
        "endTime": st.floats(0, 60) | json_values,
        "body": spoken | json_values,
        "speaker": st.sampled_from(["Ola", "", None, 7]),
    },
)


@st.composite
def json_files(draw: st.DrawFn) -> str:
    segments = draw(st.lists(json_segments | json_values, max_size=8)) * draw(st.integers(1, 6))
    document: Any = {"version": "1.0.0", "segments": segments, "language": draw(st.sampled_from(["en", "?", None, 3]))}
    return json.dumps(draw(st.sampled_from([document, document, document, segments, {"segments": 5}])))


NOTES_PIECES = (
    *(
        "---\n",
        "title: ",
        "date: 2024-3-5\n",
        "language: no\n",
        "guests: [0501",
        "# ",
        "## [08:03] ",
        "- 1:02:03 ",
        "`",
        "~~",
    ),
    *(
        "[tea](https://example.org#t=90)",
        "<https://example.org>",
        "<td>",
        "<li>",
        "<!--",
        "|a|\n|-|\n",
        "\t",
        "\n",
        ": ",
        " #",
    ),
)
markdown_files = st.lists(st.sampled_from(NOTES_PIECES) | st.text(max_size=6), max_size=30).map("".join)


@st.composite
def mutated(draw: st.DrawFn, files: st.SearchStrategy[str]) -> bytes:
    """The bytes of a file in some encoding, cut short, or with other bytes written into it, or whole."""
    content = bytearray(draw(files).encode(draw(encodings), "replace"))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(content)))
        if draw(st.booleans()):
            content[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=4))
        else:
            del content[at : at + draw(st.integers(0, 40))]
    return bytes(content)


def check(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        found: PublishedTranscript = read_published(path, "ep07", "en")
    except SourceError:
        return
    rows = pa.Table.from_pylist(found.rows, schema=TRANSCRIPTS).to_pylist()
    counts = found.counts
    left_out = sum(n for name, n in counts.items() if name.startswith(("merged_", "rejected_")))
    assert counts["read"] == counts["kept"] + left_out
    assert counts["kept"] == len(rows)
    assert found.n_rejected == sum(n for name, n in counts.items() if name.startswith("rejected_"))
    assert all(row["text"] == " ".join(row["text"].split()) != "" for row in rows)
    assert all(0 <= row["start_ms"] < row["end_ms"] <= 2 * MAX_MS for row in rows)
    assert [row["start_ms"] for row in rows] == sorted(row["start_ms"] for row in rows)
    assert not any("\0" in row["text"] for row in rows)


@corpus
@given(content=mutated(caption_files("WEBVTT")))
def test_any_webvtt_file_is_read_or_refused_and_its_counts_add_up(tmp_path: Path, content: bytes) -> None:
    check(tmp_path / "ep07.vtt", content)


@corpus
@given(content=mutated(caption_files("")))
def test_any_srt_file_is_read_or_refused_and_its_counts_add_up(tmp_path: Path, content: bytes) -> None:
    check(tmp_path / "ep07.srt", content)


@corpus
@given(content=mutated(json_files()))
def test_any_json_file_is_read_or_refused_and_its_counts_add_up(tmp_path: Path, content: bytes) -> None:
    check(tmp_path / "ep07.json", content)


@corpus
@given(content=mutated(markdown_files))
def test_any_markdown_file_is_read_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    # Detection is slow, and not what is tried here.
    monkeypatch.setattr("librarian_pipeline.archive.notes.detect_language", lambda text: "en")
    path = tmp_path / "ep07.md"
    path.write_bytes(content)
    try:
        rows = read_notes(path, "ep07")
        read_front_matter(path)
    except SourceError:
        return
    assert pa.Table.from_pylist(rows, schema=NOTES).num_rows == len(rows)
