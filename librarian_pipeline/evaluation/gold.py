"""The gold set: hand-labelled queries, judged by spans of the source."""

import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from librarian_pipeline.archive.timecodes import parse_timecode
from librarian_pipeline.errors import SourceError
from librarian_pipeline.storage.schemas import GOLD_SET


def _from_text(value: object) -> int:
    """A bare number could mean seconds or milliseconds, so only text is taken."""
    if not isinstance(value, str):
        raise ValueError('write times as text, like "08:03" or "1:08:03"')
    return parse_timecode(value)


Kind = Literal["paraphrase", "keyword", "cross_lingual", "synthesis", "unanswerable"]
Split = Literal["dev", "test"]
Timecode = Annotated[int, BeforeValidator(_from_text)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GoldSpan(_Strict):
    """A judged span: a stretch of an episode's transcript, or a section of its notes. Times in milliseconds."""

    episode: str
    layer: Literal["transcript", "notes"]
    start: Timecode | None = None
    end: Timecode | None = None
    heading: str | None = None

    @model_validator(mode="after")
    def _says_where(self) -> "GoldSpan":
        if self.layer == "transcript" and (self.start is None or self.end is None):
            raise ValueError("a transcript span needs start and end")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError("start must be before end")
        if self.layer == "transcript" and self.heading is not None:
            raise ValueError("a transcript has no headings: leave out heading, or set layer to notes")
        if self.layer == "notes" and self.heading is None and (self.start is None or self.end is None):
            raise ValueError("a notes span needs a heading, or start and end")
        return self


class GoldQuery(_Strict):
    """A query with its judgements. Only unanswerable ones have none."""

    id: str = Field(pattern=r"^\S+$")
    query: str = Field(pattern=r"\S")
    language: str = Field(pattern=r"^[a-z]{2}$")
    kind: Kind
    split: Split
    critical: bool = False
    relevant: tuple[GoldSpan, ...]

    @model_validator(mode="after")
    def _judged(self) -> "GoldQuery":
        if (self.kind == "unanswerable") == bool(self.relevant):
            raise ValueError("an unanswerable query has no relevant spans, and every other kind has some")
        return self


_GOLD_SET: TypeAdapter[list[GoldQuery]] = TypeAdapter(list[GoldQuery])


def read_gold_set(path: Path) -> list[GoldQuery]:
    """The queries of a gold set file; none if there is no file.

    Raises `SourceError` naming the file, the query and the field that is wrong.
    """
    if not path.exists():
        return []
    try:
        raw = json.loads(path.read_text(encoding="utf-8-sig"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"{path.name} is not valid JSON ({error})", "mend it") from error
    try:
        queries = _GOLD_SET.validate_python(raw)
    except ValidationError as error:
        first = error.errors()[0]
        raise SourceError(f"{path.name}: {_where(raw, first['loc'])}", first["msg"].removeprefix("Value error, ")) from error
    ids = [query.id for query in queries]
    twice = sorted({query_id for query_id in ids if ids.count(query_id) > 1})
    if twice:
        raise SourceError(f"{path.name}: query id {twice[0]!r} is used twice", "give each query an id of its own")
    return queries


def _where(raw: Any, location: tuple[int | str, ...]) -> str:
    """`query 'q017', relevant.0.start`: the query by its id where it has one."""
    if not location or not isinstance(location[0], int):
        return "the file"
    item = raw[location[0]]
    name = repr(item["id"]) if isinstance(item, dict) and "id" in item else f"number {location[0] + 1}"
    return ", ".join([f"query {name}", *([".".join(map(str, location[1:]))] if location[1:] else [])])


def gold_table(queries: Iterable[GoldQuery]) -> pa.Table:
    """One row a judged span; unanswerable queries have one row without a span. Columns as in `schemas.GOLD_SET`."""
    rows = []
    for query in queries:
        for span in query.relevant or (None,):
            rows.append(
                {
                    "query_id": query.id,
                    **query.model_dump(exclude={"id", "relevant"}),
                    "episode_id": span.episode if span else None,
                    "layer": span.layer if span else None,
                    "start_ms": span.start if span else None,
                    "end_ms": span.end if span else None,
                    "heading": span.heading if span else None,
                }
            )
    return pa.Table.from_pylist(rows, schema=GOLD_SET)


def same_heading(one: str | None, other: str | None) -> bool:
    """Whether two headings are the same, whatever their case, spacing and Unicode form."""
    return one is not None and other is not None and _heading_key(one) == _heading_key(other)


def _heading_key(heading: str) -> str:
    return " ".join(unicodedata.normalize("NFC", heading).casefold().split())
