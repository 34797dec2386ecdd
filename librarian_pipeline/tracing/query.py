"""A gold query, traced to where every mode put the passages that answer it, and what stood before them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.judging import describe_span, is_hit
from librarian_pipeline.evaluation.measure import nothing_measured
from librarian_pipeline.lineage.graph import Item
from librarian_pipeline.retrieval.bm25 import Bm25Index
from librarian_pipeline.retrieval.citations import cite
from librarian_pipeline.retrieval.indexing import load_bm25
from librarian_pipeline.retrieval.modes import MODES, Passage, passages_of
from librarian_pipeline.storage import schemas
from librarian_pipeline.storage.provenance import Provenance
from librarian_pipeline.text.lemmas import Normalizer
from librarian_pipeline.text.tokens import raw_tokens
from librarian_pipeline.tracing.locating import nearest
from librarian_pipeline.tracing.observing import Observed


@dataclass(frozen=True)
class RankedPassage:
    """A passage with its rank (from 1) and score in each mode, as measured; None where it is not among the results kept."""

    chunk_id: str
    citation: str
    ranks: Mapping[str, int | None]
    scores: Mapping[str, float | None]


@dataclass(frozen=True)
class SpanTrace:
    """A judged span, and the passages that hit it, the best ranked first. None hits a lost one."""

    span: str
    episode_id: str
    layer: str
    start_ms: int | None
    end_ms: int | None
    heading: str | None
    passages: tuple[RankedPassage, ...]


@dataclass(frozen=True)
class TermWeight:
    """A term of the query: its idf, and what it adds to the passage's BM25 score; None where the passage doesn't hold it."""

    term: str
    idf: float
    weight: float | None


@dataclass(frozen=True)
class TermsHeld:
    """The terms of the query, in its order, as the mode sees them: words, or lemmas in the language of the passage."""

    mode: str
    chunk_id: str
    terms: tuple[TermWeight, ...]


@dataclass(frozen=True)
class QueryTrace:
    """`first` is what each mode puts first, `n_results` how many results of each are kept. `is_measured` is False where the
    query is not among those of the last measurement. `held` compares the best passage of each span with what the BM25 modes
    put first. `remarks` say what can't be told, and why.
    """

    query_id: str
    query: str
    language: str
    kind: str
    split: str
    critical: bool
    is_measured: bool
    spans: tuple[SpanTrace, ...]
    first: Mapping[str, RankedPassage | None]
    n_results: Mapping[str, int]
    held: tuple[TermsHeld, ...]
    remarks: tuple[str, ...]

    @property
    def judged(self) -> list[str]:
        """The best ranked passage of each span."""
        return list(dict.fromkeys(span.passages[0].chunk_id for span in self.spans if span.passages))


def trace_query(observed: Observed, query_id: str) -> QueryTrace:
    """Raises `UsageError` if nothing has been measured yet, or if the gold set has no such query."""
    record = observed.record(Item("eval_scores"))
    if record is None:
        raise nothing_measured(observed.warehouse)
    gold = _judgements(observed, query_id)
    results = observed.rows("rankings", None, schemas.RANKINGS, query_id=query_id)
    ranked = _Ranked(observed, gold, results)
    spans = tuple(_span(row, ranked) for row in gold if row["episode_id"] is not None)
    first = {mode: ranked.first(mode) for mode in MODES}
    best = [span.passages[0].chunk_id for span in spans if span.passages]
    return QueryTrace(
        **{name: gold[0][name] for name in ("query_id", "query", "language", "kind", "split", "critical")},
        is_measured=bool(results),
        spans=spans,
        first=first,
        n_results={mode: sum(result["mode"] == mode for result in results) for mode in MODES},
        held=tuple(_held(observed, gold[0]["query"], ranked, best, first)),
        remarks=tuple(_remarks(observed, record, gold, bool(results))),
    )


def _judgements(observed: Observed, query_id: str) -> list[dict[str, Any]]:
    everything = observed.rows("gold_set", None, schemas.GOLD_SET)
    gold = [row for row in everything if row["query_id"] == query_id]
    if not gold:
        known = dict.fromkeys(row["query_id"] for row in everything)
        fix = nearest(query_id, known) if known else "it is empty: put some in gold/gold_set.json"
        raise UsageError(f"the gold set has no query {query_id!r}", fix)
    return gold


class _Ranked:
    """The passages that a query is about, its judged ones and those that stand first, with their ranks."""

    def __init__(self, observed: Observed, gold: Iterable[Mapping[str, Any]], results: Iterable[Mapping[str, Any]]) -> None:
        self._results = {(result["mode"], result["chunk_id"]): result for result in results}
        self._first = {result["mode"]: result["chunk_id"] for result in self._results.values() if result["rank"] == 1}
        judged = {row["episode_id"] for row in gold if row["episode_id"] is not None}
        shown = {chunk_id.rpartition(":")[0] for chunk_id in self._first.values()}
        self.passages = passages_of(observed.warehouse.read_all("chunks", sorted(judged | shown), schemas.CHUNKS))

    def first(self, mode: str) -> RankedPassage | None:
        return self.of(self._first[mode]) if mode in self._first else None

    def of(self, chunk_id: str) -> RankedPassage:
        passage = self.passages.get(chunk_id)
        found = {mode: self._results.get((mode, chunk_id)) for mode in MODES}
        return RankedPassage(
            chunk_id=chunk_id,
            citation=cite(passage, passage.start_ms).text if passage else "not there any more",
            ranks={mode: result["rank"] if result else None for mode, result in found.items()},
            scores={mode: result["score"] if result else None for mode, result in found.items()},
        )


def _span(row: Mapping[str, Any], ranked: _Ranked) -> SpanTrace:
    hits = [
        ranked.of(passage.chunk_id)
        for passage in ranked.passages.values()
        if (passage.episode_id, passage.layer) == (row["episode_id"], row["layer"]) and is_hit(row, passage)
    ]
    taken = {name: row[name] for name in ("episode_id", "layer", "start_ms", "end_ms", "heading")}
    return SpanTrace(describe_span(row), **taken, passages=tuple(sorted(hits, key=_best_first)))


def _best_first(passage: RankedPassage) -> tuple[list[float], str]:
    return sorted(rank or float("inf") for rank in passage.ranks.values()), passage.chunk_id


def _held(
    observed: Observed, query: str, ranked: _Ranked, judged: list[str], first: Mapping[str, RankedPassage | None]
) -> Iterable[TermsHeld]:
    """Of the BM25 modes: the rank in the dense mode has no reason that could be told in words."""
    if observed.record(Item("bm25_raw_index")) is None or observed.record(Item("bm25_stem_index")) is None:
        return
    for mode in ("bm25_raw", "bm25_stem"):
        winner = first[mode]
        index = load_bm25(observed.warehouse, mode)
        [corpus] = observed.rows(f"{mode}_corpus", None, schemas.BM25_CORPUS)
        normalizer = Normalizer(corpus["normalizer"])
        for chunk_id in dict.fromkeys([*judged, *([winner.chunk_id] if winner else [])]):
            passage = ranked.passages.get(chunk_id)
            if passage is not None and chunk_id in index.chunk_ids:
                terms = raw_tokens(query) if mode == "bm25_raw" else normalizer.terms(query, passage.language)
                yield TermsHeld(mode, chunk_id, tuple(_weights(index, terms, passage)))


def _weights(index: Bm25Index, terms: list[str], passage: Passage) -> Iterable[TermWeight]:
    document = index.chunk_ids.index(passage.chunk_id)
    for term, times in Counter(terms).items():
        scores, candidates = index.scores([term] * times)
        yield TermWeight(term, index.idf(term), float(scores[document]) if candidates[document] else None)


def _remarks(observed: Observed, record: Provenance, gold: list[dict[str, Any]], is_measured: bool) -> Iterable[str]:
    if gold[0]["episode_id"] is None:
        yield "no passage answers it: unanswerable queries are not ranked"
    elif not is_measured:
        yield "no mode has a result for it: it was not measured yet, or no passage was there to be found"
    now = observed.world.inputs(Item("eval_scores"))
    changed = sorted(name for name in record.inputs.keys() | now.keys() if record.inputs.get(name) != now.get(name))
    if changed:
        others = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        yield f"ranks are those of the last measurement: since then {', '.join(changed[:3])}{others} changed"
