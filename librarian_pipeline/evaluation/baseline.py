"""`gold/baseline.json`: the measurement that a person accepted, and the last release, query by query.

One query a line, so that a diff shows what changed. Only `accept` writes it, and people review it like any other file.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from librarian_pipeline.errors import SourceError
from librarian_pipeline.evaluation.ranks import RANK_METRICS, Measurement, Place, QueryRanks
from librarian_pipeline.storage import atomic

FORMAT = 1
DECIMALS = 6
MEND = "put back the version that was committed, or remove it and accept anew with `librarian eval --accept`"


@dataclass(frozen=True)
class Accepted:
    """A measurement as it was accepted; `accepted_at` is a date (UTC)."""

    accepted_at: str
    measurement: Measurement


@dataclass(frozen=True)
class Baseline:
    """What new measurements are held against. `release` stays when another baseline is accepted."""

    baseline: Accepted
    release: Accepted | None = None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Query(_Strict):
    id: str = Field(min_length=1)
    query: str = Field(min_length=1)
    critical: bool = False
    spans: list[str] = Field(min_length=1)
    lost: list[str] = []
    ranks: dict[str, list[int | None]]
    first: dict[str, list[str] | None]

    @model_validator(mode="after")
    def _fits(self) -> "_Query":
        if self.ranks.keys() != self.first.keys():
            raise ValueError("ranks and first have different modes")
        if any(len(ranks) != len(self.spans) - len(self.lost) for ranks in self.ranks.values()):
            raise ValueError("every span that is not lost has one rank")
        if any(rank is not None and rank < 1 for ranks in self.ranks.values() for rank in ranks):
            raise ValueError("ranks begin at 1")
        if any(first is not None and len(first) != 2 for first in self.first.values()):
            raise ValueError("first is a passage and its citation")
        return self


class _Section(_Strict):
    accepted_at: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    fingerprint: str = Field(min_length=1)
    mode: str = Field(min_length=1)
    figures: dict[str, dict[str, float]]
    queries: list[_Query]

    @model_validator(mode="after")
    def _is_whole(self) -> "_Section":
        ids = [query.id for query in self.queries]
        twice = sorted({query_id for query_id in ids if ids.count(query_id) > 1})
        if twice:
            raise ValueError(f"query {twice[0]!r} is there twice")
        odd = [query.id for query in self.queries if query.ranks.keys() != self.queries[0].ranks.keys()]
        if odd:
            raise ValueError(f"query {odd[0]!r} has other modes than the first")
        if self.queries and self.mode not in self.queries[0].ranks:
            raise ValueError(f"no query has ranks in the default mode {self.mode!r}")
        if _rounded(_accepted(self).measurement.figures()) != self.figures:
            raise ValueError("the figures are not those of the queries: a line was changed or is gone")
        return self


class _File(_Strict):
    format: Literal[1]
    baseline: _Section
    release: _Section | None


_FILE = TypeAdapter(_File)


def read_baseline(path: Path) -> Baseline | None:
    """None if there is no file. Raises `SourceError` naming the field, or the line, that is wrong."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        file = _FILE.validate_python(raw)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(f"{path.name} can't be read ({error.strerror})", "make it a file that you may read") from error
    except ValidationError as error:
        first = error.errors()[0]
        reason = first["msg"].removeprefix("Value error, ")
        raise SourceError(f"{path.name}: {_where(raw, first['loc'])}: {reason}", MEND) from error
    except ValueError as error:  # of JSON, which tells the line, or of UTF-8
        raise SourceError(f"{path.name} is not valid JSON ({error})", MEND) from error
    return Baseline(_accepted(file.baseline), _accepted(file.release) if file.release else None)


def _where(raw: Any, location: tuple[int | str, ...]) -> str:
    """`baseline, query 'q017', ranks.dense`: the query by its id where it has one."""
    parts = list(location)
    if len(parts) >= 3 and parts[1] == "queries" and isinstance(parts[2], int):
        query = raw[parts[0]]["queries"][parts[2]]
        name = repr(query["id"]) if isinstance(query, dict) and "id" in query else f"number {parts[2] + 1}"
        return ", ".join([str(parts[0]), f"query {name}", *([".".join(map(str, parts[3:]))] if parts[3:] else [])])
    return ".".join(map(str, parts)) or "the file"


def _accepted(section: _Section) -> Accepted:
    queries = {
        query.id: QueryRanks(
            query.id,
            query.query,
            query.critical,
            tuple(query.spans),
            tuple(query.lost),
            {mode: Place(tuple(ranks), *(query.first[mode] or (None, None))) for mode, ranks in query.ranks.items()},
        )
        for query in section.queries
    }
    return Accepted(section.accepted_at, Measurement(section.fingerprint, section.mode, queries))


def accept(path: Path, measurement: Measurement, accepted_at: str, *, release: bool = False) -> Baseline:
    """Writes the measurement as the baseline, and with `release` as the last release too, and returns what was written.

    Raises `SourceError` where the old file can't be read: the last release is in it.
    """
    before = read_baseline(path)
    now = Accepted(accepted_at, measurement)
    written = Baseline(now, now if release else before.release if before else None)
    atomic.write_text(baseline_text(written), path)
    return written


def baseline_text(baseline: Baseline) -> str:
    """The file's text: the same for the same measurements, and with one query a line."""
    release = "\n".join(_lines_of(baseline.release)) if baseline.release else "null"
    accepted = "\n".join(_lines_of(baseline.baseline))
    return f'{{\n"format": {FORMAT},\n"baseline": {accepted},\n"release": {release}\n}}\n'


def _lines_of(accepted: Accepted) -> Iterator[str]:
    measurement = accepted.measurement
    yield "{"
    for name, told in (
        ("accepted_at", accepted.accepted_at),
        ("fingerprint", measurement.fingerprint),
        ("mode", measurement.mode),
    ):
        yield f'"{name}": {_json(told)},'
    figures = _rounded(measurement.figures())
    yield '"figures": {' + ("" if figures else "},")
    for position, (mode, of_mode) in enumerate(figures.items()):
        yield f"  {_json(mode)}: {_json(of_mode)}" + ("," if position < len(figures) - 1 else "\n},")
    yield '"queries": ['
    for position, query in enumerate(measurement.queries.values()):
        yield f"  {_json(_query(query))}" + ("," if position < len(measurement.queries) - 1 else "")
    yield "]"
    yield "}"


def _query(query: QueryRanks) -> dict[str, Any]:
    return {
        "id": query.query_id,
        "query": query.query,
        **({"critical": True} if query.critical else {}),
        "spans": query.spans,
        **({"lost": query.lost} if query.lost else {}),
        "ranks": {mode: place.ranks for mode, place in query.places.items()},
        "first": {
            mode: [place.first, place.citation or place.first] if place.first is not None else None
            for mode, place in query.places.items()
        },
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _rounded(figures: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {mode: {metric: round(of_mode[metric], DECIMALS) for metric in RANK_METRICS} for mode, of_mode in figures.items()}
