"""The score table as people read it: in the terminal, in Dagster, in the README."""

from dataclasses import dataclass

import pyarrow as pa

from librarian_pipeline.evaluation.metrics import METRICS
from librarian_pipeline.retrieval.modes import MODES


@dataclass(frozen=True)
class ScoreTable:
    """A figure for each mode and metric over all queries, and what they were measured on."""

    n_passages: int
    n_episodes: int
    n_queries: int
    n_spans: int
    n_lost_spans: int
    dense_backend: str
    values: dict[tuple[str, str], float]
    default_mode: str | None = None

    @classmethod
    def of(cls, scores: pa.Table, corpus: pa.Table) -> "ScoreTable":
        """From `eval_scores` and the table beside it."""
        rows = [row for row in scores.to_pylist() if row["slice"] == "all"]
        return cls(**corpus.to_pylist()[0], values={(row["mode"], row["metric"]): row["value"] for row in rows})

    @property
    def caption(self) -> str:
        lost = f" ({self.n_lost_spans} of {self.n_spans} judged spans are lost)" if self.n_lost_spans else ""
        return (
            f"{self.n_passages} passages of {self.n_episodes} episodes, {self.n_queries} queries{lost}; "
            f"dense: {self.dense_backend}"
        )

    @property
    def header(self) -> list[str]:
        return ["Retrieval mode", *METRICS]

    @property
    def rows(self) -> list[list[str]]:
        if not self.values:
            return []
        # Figures of an earlier version may lack a mode.
        measured = [mode for mode in MODES if (mode, METRICS[0]) in self.values]
        return [[self._marked(mode), *(f"{self.values[mode, metric]:.2f}" for metric in METRICS)] for mode in measured]

    def _marked(self, mode: str) -> str:
        return f"{mode} (default)" if mode == self.default_mode else mode

    def to_markdown(self) -> str:
        """The caption, and the table in Markdown."""
        lines = [" | ".join(self.header), " | ".join(["---", *["---:"] * len(METRICS)])]
        lines += [" | ".join(row) for row in self.rows]
        return "\n".join([self.caption, "", *(f"| {line} |" for line in lines)])
