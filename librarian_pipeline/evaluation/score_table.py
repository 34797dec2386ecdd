"""The score table as people read it: in the terminal, in Dagster, in the README; and the tables beside it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from librarian_pipeline.evaluation.jump_in import LIMITS_S, MEDIAN, WITHIN
from librarian_pipeline.evaluation.metrics import EVERYTHING, HEADLINE, Dimension, dimension_of, slice_name
from librarian_pipeline.evaluation.power import ALPHA, POWER
from librarian_pipeline.retrieval.modes import MODES


@dataclass(frozen=True)
class ScoreTable:
    """A figure for each mode and metric over all queries, or those of one split, and what they were measured on."""

    n_passages: int
    n_episodes: int
    n_queries: int
    n_spans: int
    n_lost_spans: int
    dense_backend: str
    values: dict[tuple[str, str], float]
    default_mode: str | None = None
    split: str | None = None

    @classmethod
    def of(cls, scores: pa.Table, corpus: pa.Table, split: str | None = None) -> "ScoreTable":
        """From `eval_scores` and the table beside it."""
        rows = [row for row in scores.to_pylist() if row["slice"] == slice_name(EVERYTHING, split)]
        measured = corpus.to_pylist()[0]
        if split is not None:
            measured["n_queries"] = max((row["n_queries"] for row in rows), default=0)
        values = {(row["mode"], row["metric"]): row["value"] for row in rows}
        return cls(**measured, values=values, split=split)

    @property
    def caption(self) -> str:
        lost = f" ({self.n_lost_spans} of {self.n_spans} judged spans are lost)" if self.n_lost_spans else ""
        of_split = f" of the {self.split} split" if self.split else ""
        return (
            f"{self.n_passages} passages of {self.n_episodes} episodes, {self.n_queries} queries{of_split}{lost}; "
            f"dense: {self.dense_backend}"
        )

    @property
    def header(self) -> list[str]:
        return ["Retrieval mode", *HEADLINE]

    @property
    def rows(self) -> list[list[str]]:
        if not self.values:
            return []
        # Figures of an earlier version may lack a mode; other stacks stand below.
        modes = _with_others(mode for mode, _ in self.values)
        measured = [mode for mode in modes if (mode, HEADLINE[0]) in self.values]
        return [[self._marked(mode), *(f"{self.values[mode, metric]:.2f}" for metric in HEADLINE)] for mode in measured]

    def _marked(self, mode: str) -> str:
        return f"{mode} (default)" if mode == self.default_mode else mode

    def to_markdown(self) -> str:
        """The caption, and the table in Markdown."""
        lines = [" | ".join(self.header), " | ".join(["---", *["---:"] * len(HEADLINE)])]
        lines += [" | ".join(row) for row in self.rows]
        return "\n".join([self.caption, "", *(f"| {line} |" for line in lines)])


Grid = tuple[list[str], list[list[str]]]
"""A header, and rows of text."""


def sliced_grid(scores: pa.Table, by: Dimension, split: str | None = None) -> Grid:
    """The score table of each language, kind or split, with its number of queries."""
    found = _Figures(scores, split)
    rows = [
        [name, mode, found.count(name, mode), *(found.text(name, mode, metric, ".2f") for metric in HEADLINE)]
        for name in found.names(by)
        for mode in found.modes
    ]
    return [by.capitalize(), "Retrieval mode", "n", *HEADLINE], rows


def jump_in_grid(scores: pa.Table, by: Dimension | None = None, split: str | None = None) -> Grid:
    """How far the passage that each mode cites first is from the judged start; no rows where no query tells."""
    found = _Figures(scores, split)
    rows = []
    for name in found.names(by):
        for mode in found.modes:
            first = found.get(name, mode, WITHIN[0])
            median = found.get(name, mode, MEDIAN)
            if first is None:
                continue
            shares = [found.text(name, mode, metric, ".2f") for metric in WITHIN]
            told = f"{median['value'] / 1000:.1f} s" if median else "-"
            interval = f"{median['ci_low'] / 1000:.1f}-{median['ci_high'] / 1000:.1f} s" if median else "-"
            counts = f"{median['n_queries'] if median else 0} of {first['n_queries']}"
            rows.append([*([name] if by else []), mode, *shares, told, interval, counts])
    limits = [f"{limit} s" for limit in LIMITS_S]
    return [*([by.capitalize()] if by else []), "Retrieval mode", *limits, "median", "interval", "over"], rows


class _Figures:
    """The rows of `eval_scores`, of one split or of all queries, by the name of their slice without the split."""

    def __init__(self, scores: pa.Table, split: str | None) -> None:
        self._split = split
        self._rows = {(row["slice"], row["mode"], row["metric"]): row for row in scores.to_pylist()}
        self.modes = _with_others(mode for _, mode, _ in self._rows)

    def names(self, by: Dimension | None) -> list[str]:
        whole = dict.fromkeys(name for name, _, _ in self._rows if "/" not in name and dimension_of(name) == by)
        stored = {name for name, _, _ in self._rows}
        return [name for name in whole if slice_name(name, self._split) in stored]

    def get(self, name: str, mode: str, metric: str) -> dict[str, Any] | None:
        return self._rows.get((slice_name(name, self._split), mode, metric))

    def text(self, name: str, mode: str, metric: str, form: str) -> str:
        row = self.get(name, mode, metric)
        return format(row["value"], form) if row else "-"

    def count(self, name: str, mode: str) -> str:
        row = self.get(name, mode, HEADLINE[0])
        return str(row["n_queries"]) if row else "0"


def _with_others(found: Iterable[str]) -> list[str]:
    """The modes of this machine, then those of other stacks among `found`, in their order."""
    return list(dict.fromkeys([*MODES, *found]))


def detectable_lines(detectable: pa.Table, scores: pa.Table, split: str | None = None) -> list[str]:
    """What the gold set, or one split, can tell: of the default mode the interval, and the smallest loss."""
    rows = {(row["slice"], row["mode"], row["metric"]): row for row in scores.to_pylist()}
    tellable = [row for row in detectable.to_pylist() if row["slice"] == slice_name(EVERYTHING, split)]
    lines = []
    for told in tellable:
        row = rows[told["slice"], told["mode"], told["metric"]]
        half_width = (row["ci_high"] - row["ci_low"]) / 2
        effect = f"{told['effect']:.2f} or more" if told["effect"] is not None else "none"
        lines.append(
            f"{told['mode']} {told['metric']} {row['value']:.2f} +/- {half_width:.2f} (n = {told['n_queries']}); "
            f"losses it can tell: {effect}"
        )
    if lines:
        lines.append(
            f"(one-sided test at {ALPHA:.0%}, {POWER:.0%} power, for a change that moves as many queries as that from "
            f"{tellable[0]['mode']} to {tellable[0]['like_mode']})"
        )
    return lines
