"""`python -m librarian_pipeline_tests.benchmarks.fusion --home ARCHIVE`: how `hybrid_cc` is tuned, and what came of it.

The weights are chosen on the queries of the dev split alone, for each embedding model: by MRR, in cross-validation with
folds of whole episodes, so that the figure for queries that had no part in the choice is known too. Then, on the test split,
each mode is compared query by query with the single branch that was the best on the dev split. Passages that the archive has
no vectors of are embedded here; the archive itself isn't changed. Seeds are fixed: equal archives, equal tables.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from librarian_pipeline.evaluation.judging import JudgedQuery, judge
from librarian_pipeline.evaluation.metrics import per_query
from librarian_pipeline.evaluation.paired import compare_queries
from librarian_pipeline.evaluation.scoring import DEPTH
from librarian_pipeline.retrieval.dense import VectorIndex
from librarian_pipeline.retrieval.embedders import Embedder, load_embedder
from librarian_pipeline.retrieval.embedders.interface import Vectors
from librarian_pipeline.retrieval.indexing import embed_passages, index_model, indexed_episodes, load_bm25, load_searcher
from librarian_pipeline.retrieval.modes import MODES, Searcher
from librarian_pipeline.settings import EmbeddingSettings, EvaluationSettings, FusionSettings, Settings
from librarian_pipeline.storage.schemas import CHUNKS, GOLD_SET
from librarian_pipeline.storage.warehouse import Warehouse
from librarian_pipeline.workspace import Workspace

BACKENDS = ("char-ngram", "all-MiniLM-L6-v2", "multilingual-e5-small", "joint-e5-minilm")
SINGLE_BRANCHES = ("bm25_raw", "bm25_stem", "dense")
DENSE_WEIGHTS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
LANGUAGE_CENTRINGS = (0.0, 0.5, 1.0)
TUNED_METRIC = "MRR"
SHOWN = ("R@1", "R@5", "MRR")
FOLDS = 5
REPEATS = 10
SEED = 20_240_229

Values = Mapping[str, Mapping[str, float]]
"""A metric's value for each query: metric -> query id -> value."""


class RememberingEmbedder:
    """A model whose queries are embedded once for all searchers."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.dimensions, self.max_tokens = embedder.dimensions, embedder.max_tokens
        self.embed_passages = embedder.embed_passages
        self.count_tokens = embedder.count_tokens
        self._known: dict[str, Vectors] = {}

    def embed_query(self, text: str) -> Vectors:
        if text not in self._known:
            self._known[text] = self.embedder.embed_query(text)
        return self._known[text]


@dataclass(frozen=True)
class Backend:
    """An archive's indexes, with the vectors of one embedding model: `searcher` makes one with other fusion settings."""

    name: str
    searcher: Callable[[FusionSettings], Searcher]
    queries: list[JudgedQuery]

    def values(self, mode: str, fusion: FusionSettings, split: str) -> Values:
        """The figures of a mode for each query of a split."""
        searcher = self.searcher(fusion)
        queries = [query for query in self.queries if query.split == split]
        found = {
            query.query_id: [hit.passage.chunk_id for hit in searcher.search(query.query, mode, DEPTH)] for query in queries
        }
        return per_query(queries, found)


@dataclass(frozen=True)
class Tuned:
    """What the dev split chose: `fusion` on all of it, `held_out` the mean of each metric for the queries left out of a
    choice, and `share` of the folds that chose `fusion` as well.
    """

    fusion: FusionSettings
    held_out: dict[str, float]
    share: float


def open_backend(warehouse: Warehouse, settings: Settings, model: str) -> Backend:
    """Raises `UsageError` if the archive has no index."""
    stored = load_searcher(warehouse, settings)
    chunks = warehouse.read_all("chunks", indexed_episodes(warehouse), CHUNKS)
    embedder = RememberingEmbedder(load_embedder(EmbeddingSettings(model=model)))
    is_stored = index_model(warehouse, settings).model == model
    vectors = warehouse.read("vector_index") if is_stored else embed_passages(chunks, embedder, model)
    vector_index, raw_index = VectorIndex(vectors), load_bm25(warehouse, "bm25_raw")

    def searcher(fusion: FusionSettings) -> Searcher:
        return Searcher(
            chunks=chunks,
            raw_index=raw_index,
            stem_index=stored.stem_index,
            vector_index=vector_index,
            normalizer=stored.normalizer,
            load_embedder=lambda: embedder,
            fusion=fusion,
            default_mode=settings.retrieval.default_mode,
        )

    judged = judge(warehouse.read_all("gold_set", ["all"], GOLD_SET), stored.passages)
    return Backend(model, searcher, [query for query in judged if query.hits_by_span])


def tune(values: Mapping[FusionSettings, Values], episodes: Mapping[str, str]) -> Tuned:
    """Chooses by the mean of `TUNED_METRIC` over the queries, the first of equals. `episodes` are those of the queries.

    All queries of an episode are in one fold: they are about the same passages.
    """
    candidates, query_ids = list(values), list(episodes)
    of_queries = np.array([[values[one][TUNED_METRIC][query_id] for query_id in query_ids] for one in candidates])
    best = int(of_queries.mean(axis=1).argmax())
    names = sorted(set(episodes.values()))
    held_out = {metric: np.zeros(len(query_ids)) for metric in SHOWN}
    generator = np.random.default_rng(SEED)
    n_same = n_choices = 0
    for _ in range(REPEATS):
        fold_of = dict(zip(names, generator.permutation(len(names)) % FOLDS, strict=True))
        folds = np.array([fold_of[episodes[query_id]] for query_id in query_ids])
        for fold in sorted(set(fold_of.values())):
            out = folds == fold
            chosen = int(of_queries[:, ~out].mean(axis=1).argmax()) if not out.all() else best
            n_same, n_choices = n_same + (chosen == best), n_choices + 1
            for metric, collected in held_out.items():
                found = np.array([values[candidates[chosen]][metric][query_id] for query_id in query_ids])
                collected[out] += found[out] / REPEATS
    means = {metric: float(collected.mean()) for metric, collected in held_out.items()}
    return Tuned(candidates[best], means, n_same / n_choices)


def tuned_on_dev(backend: Backend) -> Tuned:
    """Over the grid of dense weights and language centrings; raises `ValueError` if the dev split has no queries."""
    grid = [FusionSettings(dense_weight=w, language_centring=c) for c in LANGUAGE_CENTRINGS for w in DENSE_WEIGHTS]
    # The first passage stands for the query's episode, also where others of its passages are in further ones.
    episodes = {
        query.query_id: min(query.hits_by_span[0]).partition(":")[0] for query in backend.queries if query.split == "dev"
    }
    if not episodes:
        raise ValueError("the gold set has no queries in its dev split")
    return tune({fusion: backend.values("hybrid_cc", fusion, "dev") for fusion in grid}, episodes)


def report(backend: Backend, shipped: FusionSettings, evaluation: EvaluationSettings) -> list[str]:
    """Lines of Markdown: the choice on the dev split, then the table of the test split."""
    tuned = tuned_on_dev(backend)
    rows = {mode: (mode, shipped) for mode in MODES}
    rows["hybrid_cc, tuned for this model"] = ("hybrid_cc", tuned.fusion)
    on_dev = {name: backend.values(mode, fusion, "dev") for name, (mode, fusion) in rows.items()}
    on_test = {name: backend.values(mode, fusion, "test") for name, (mode, fusion) in rows.items()}
    best_branch = max(SINGLE_BRANCHES, key=lambda mode: _mean(on_dev[mode][TUNED_METRIC]))
    held_out = ", ".join(f"{metric} {value:.3f}" for metric, value in tuned.held_out.items())
    head = [
        "mode",
        *(f"dev {m}" for m in SHOWN),
        *(f"test {m}" for m in SHOWN),
        *(f"test {m} less {best_branch}" for m in ("R@1", "MRR")),
    ]
    lines = [
        f"### {backend.name}",
        "",
        f"{len(on_dev['dense'][TUNED_METRIC])} dev and {len(on_test['dense'][TUNED_METRIC])} test queries; the best single "
        f"branch on dev: {best_branch}",
        "",
        f"dev chose dense_weight {tuned.fusion.dense_weight:g}, language_centring {tuned.fusion.language_centring:g} "
        f"({tuned.share:.0%} of the folds too); hybrid_cc on dev queries left out of the choice: {held_out}",
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
    ]
    for name in rows:
        cells = [name]
        cells += [f"{_mean(found[name][metric]):.3f}" for found in (on_dev, on_test) for metric in SHOWN]
        cells += [_against(metric, on_test[best_branch], on_test[name], evaluation) for metric in ("R@1", "MRR")]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _mean(values: Mapping[str, float]) -> float:
    return float(np.mean(list(values.values())))


def _against(metric: str, branch: Values, mode: Values, settings: EvaluationSettings) -> str:
    found = compare_queries(
        metric,
        branch[metric],
        mode[metric],
        resamples=settings.bootstrap_resamples,
        confidence=settings.confidence,
    )
    if not found.wins and not found.losses:
        return "the same"
    interval = f"{found.low:+.3f} to {found.high:+.3f}"
    return f"{found.difference:+.3f} ({interval}; {found.wins} won, {found.losses} lost, p {found.p:.3f})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a section for each embedding model, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m librarian_pipeline_tests.benchmarks.fusion", description=__doc__)
    parser.add_argument("--home", type=Path, default=Path("data"), help="an archive that has been run")
    parser.add_argument("--backend", action="append", help="an embedding model; may be repeated")
    options = parser.parse_args(arguments)
    workspace = Workspace.open(options.home.expanduser().absolute())
    for model in options.backend or BACKENDS:
        print(f"measuring with {model} ...", file=sys.stderr, flush=True)
        backend = open_backend(workspace.warehouse, workspace.settings, model)
        print("\n".join(report(backend, workspace.settings.fusion, workspace.settings.evaluation)), end="\n\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
