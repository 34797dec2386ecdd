"""How often answers are false, and refusals too, measured on the gold set: dev chooses the thresholds, test judges them.

A false answer is one to a query that nothing answers; a false refusal, one of a query that has judged passages. An answer is
grounded if one of its claims is from a passage that hits a judged span.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from librarian_pipeline.answering.asking import PASSAGES
from librarian_pipeline.answering.evidence import Evidence, evidence_of, is_enough, min_cosine
from librarian_pipeline.answering.extractive import MOST_SENTENCES, extract
from librarian_pipeline.answering.verifier import Verifier
from librarian_pipeline.errors import UsageError
from librarian_pipeline.evaluation.judging import judge
from librarian_pipeline.serving.edition import Edition
from librarian_pipeline.settings import AnswerSettings
from librarian_pipeline.storage.schemas import GOLD_SET

COSINES = tuple(round(0.005 * step, 3) for step in range(201))
COVERAGES = tuple(round(0.05 * step, 2) for step in range(10, 21))


@dataclass(frozen=True)
class Asked:
    """A gold query, and what the archive holds on it. `found`: a passage that the extractive producer quotes hits a span.

    `grounded` is None where nothing was claimed.
    """

    split: str
    answerable: bool
    found: bool
    evidence: Evidence
    grounded: bool | None


@dataclass(frozen=True)
class Share:
    """`n` of `of`, with the Wilson interval at 95 %; the bounds are None of nothing."""

    split: str
    what: str
    n: int
    of: int
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Calibration:
    """`chosen_*` are the best thresholds on dev; the shares are those of the thresholds in use."""

    snapshot: str
    min_cosine: float | None
    min_coverage: float
    chosen_cosine: float | None
    chosen_coverage: float | None
    shares: tuple[Share, ...]


def calibrate(
    edition: Edition,
    mode: str | None,
    settings: AnswerSettings,
    on_progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """With the extractive producer, whatever endpoint is set. Raises `UsageError` for an archive without a gold set."""
    gold = edition.snapshot.tables.read_all("gold_set", ["all"], GOLD_SET)
    relevant = {query.query_id: query.relevant for query in judge(gold, edition.searcher.passages)}
    queries = {row["query_id"]: row for row in gold.to_pylist()}
    if not queries:
        raise UsageError("there are no gold queries to calibrate on", "put some in gold/gold_set.json (see the README)")
    least = min_cosine(edition, settings)
    asked = []
    for done, (query_id, row) in enumerate(queries.items(), start=1):
        asked.append(_ask(edition, mode, row, relevant.get(query_id, frozenset()), (least, settings.min_coverage)))
        if on_progress:
            on_progress(done, len(queries))
    cosine, coverage = best_thresholds([one for one in asked if one.split == "dev"]) or (None, None)
    shares = shares_of(asked, least, settings.min_coverage)
    return Calibration(edition.id, least, settings.min_coverage, cosine, coverage, shares)


def _ask(
    edition: Edition, mode: str | None, row: dict[str, Any], relevant: frozenset[str], least: tuple[float | None, float]
) -> Asked:
    retrieved = [cited.passage for cited in edition.search(row["query"], mode, PASSAGES)]
    evidence = evidence_of(edition, row["query"], mode, retrieved)
    grounded = None
    if relevant and is_enough(evidence, *least):
        answer = Verifier(edition, retrieved).answer(extract(edition.searcher, row["query"], mode, retrieved))
        grounded = any(claim.chunk_id in relevant for claim in answer.claims)
    found = any(passage.chunk_id in relevant for passage in retrieved[:MOST_SENTENCES])
    return Asked(row["split"], row["kind"] != "unanswerable", found, evidence, grounded)


def best_thresholds(asked: Sequence[Asked]) -> tuple[float | None, float] | None:
    """(cosine, coverage) with the least sum of the shares of false answers and of false refusals; None without both kinds.

    The coverage is chosen first, as if it decided alone, as it does in the modes of words; then the cosine beside it. Of
    equal sums, that with fewer false refusals: a false answer still shows true quotes, which people can read. There is no
    cosine to choose where no query has one.
    """
    n_unanswerable, n_answerable = sum(not one.answerable for one in asked), sum(one.answerable for one in asked)
    if not n_unanswerable or not n_answerable:
        return None

    def cost(least_cosine: float | None, least_coverage: float) -> tuple[int, int]:
        answers, refusals = _errors(asked, least_cosine, least_coverage)
        # Over the common denominator, so that equal sums are equal.
        return answers * n_answerable + refusals * n_unanswerable, refusals

    share = min(COVERAGES, key=lambda one: cost(None, one))
    if all(one.evidence.cosine is None for one in asked):
        return None, share
    return max(COSINES, key=lambda one: (*(-part for part in cost(one, share)), one)), share


def _errors(asked: Iterable[Asked], least_cosine: float | None, least_coverage: float) -> tuple[int, int]:
    wrong = [one for one in asked if is_enough(one.evidence, least_cosine, least_coverage) != one.answerable]
    return sum(not one.answerable for one in wrong), sum(one.answerable for one in wrong)


def shares_of(asked: Sequence[Asked], least_cosine: float | None, least_coverage: float) -> tuple[Share, ...]:
    shares = []
    for split in ("dev", "test"):
        own = [one for one in asked if one.split == split]
        unanswerable, answerable = [o for o in own if not o.answerable], [o for o in own if o.answerable]
        found, answered = [o for o in answerable if o.found], [o for o in answerable if o.grounded is not None]
        for what, wrong, of in (
            ("false answers", _errors(unanswerable, least_cosine, least_coverage)[0], unanswerable),
            ("false refusals", _errors(answerable, least_cosine, least_coverage)[1], answerable),
            (f"of those found in the first {MOST_SENTENCES}", _errors(found, least_cosine, least_coverage)[1], found),
            ("answers that quote a judged passage", sum(o.grounded is True for o in answered), answered),
        ):
            shares.append(Share(split, what, wrong, len(of), *_wilson(wrong, len(of))))
    return tuple(shares)


def _wilson(n: int, of: int) -> tuple[float | None, float | None]:
    from scipy.stats import binomtest

    if not of:
        return None, None
    interval = binomtest(n, of).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def calibration_rows(calibration: Calibration) -> list[list[str]]:
    """Split, what, count, share and interval, as people read them."""
    return [
        [
            share.split,
            share.what,
            f"{share.n} of {share.of}",
            "" if share.low is None or share.high is None else f"{share.n / share.of:.2f}",
            "" if share.low is None or share.high is None else f"{share.low:.2f} to {share.high:.2f}",
        ]
        for share in calibration.shares
    ]


def threshold_lines(calibration: Calibration) -> list[str]:
    in_use = f"min_cosine {_told(calibration.min_cosine)}, min_coverage {calibration.min_coverage:g}"
    if calibration.chosen_coverage is None:
        return [f"in use: {in_use}", "the dev queries choose none: they need some that nothing answers, and some others"]
    best = f"min_cosine {_told(calibration.chosen_cosine)}, min_coverage {calibration.chosen_coverage:g}"
    return [f"in use: {in_use}", f"best on dev: {best}", f"snapshot: {calibration.snapshot}"]


def _told(cosine: float | None) -> str:
    return "none" if cosine is None else f"{cosine:g}"
