"""The gates: whether a measurement is as good as the one that was accepted. Pure: figures in, results out.

A floor alone lets a real loss pass as long as it stays above, so that every query is compared with itself: one metric,
named beforehand, decides by a test at its full level; all others share theirs by Holm's correction. What a test can't prove
with few queries, the backstop catches where it is large. Small losses one after the other add up against the last release.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from librarian_pipeline.checks import gates as names
from librarian_pipeline.checks.outcome import Severity
from librarian_pipeline.evaluation.baseline import Baseline
from librarian_pipeline.evaluation.paired import Loss, find_loss, holm
from librarian_pipeline.evaluation.ranks import RANK_METRICS, Measurement, Place, QueryRanks, Ranks, Results, value
from librarian_pipeline.evaluation.readme_table import NO_TABLE, differences
from librarian_pipeline.retrieval.modes import BRANCHES, FUSED_MODES, PLAIN_FUSION
from librarian_pipeline.settings import GateSettings

NEAR_TIE = 1e-5
"""Scores that are nearer than this may change places from one processor to another."""
ACCEPT = "`librarian eval --accept`"
REPAIR = "look after the disk, and `librarian run --full` derives everything anew"
NOTHING_ACCEPTED = f"no baseline is accepted yet: look at the figures, then {ACCEPT}"
NOTHING_MEASURED = "nothing is measured: no query of the gold set has a passage to be found"

WON, LOST, MISSED, MOVED, UNRESOLVED = "won", "lost", "missed", "moved", "unresolved"


@dataclass(frozen=True)
class Change:
    """A query that was won or lost, as in `schemas.RANK_CHANGE`."""

    change: str
    query_id: str
    query: str
    mode: str | None
    old_rank: str | None
    new_rank: str | None
    now_first: str | None


@dataclass(frozen=True)
class GateResult:
    """What became of a gate. `severity` says what it is if it failed; one that passed as a warning could not look."""

    gate: str
    passed: bool
    severity: Severity
    message: str
    details: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """What is judged: the measurement, with the results behind it and all figures of the score table by mode and metric.

    `earlier` is the measurement before this one, `readme` the text of the file that the settings name, `damaged` the stored
    tables that are not what was written.
    """

    measurement: Measurement
    results: Results
    figures: Mapping[tuple[str, str], float]
    earlier: Measurement | None = None
    readme: str | None = None
    damaged: Sequence[str] = ()


@dataclass(frozen=True)
class Pairs:
    """The queries of two measurements that can be compared, and `told`, what to say of the others."""

    then: Measurement
    now: Measurement
    ids: list[str]
    told: str

    @classmethod
    def of(cls, then: Measurement, now: Measurement) -> "Pairs":
        both = [query_id for query_id in now.queries if query_id in then.queries]
        equal = [query_id for query_id in both if now.queries[query_id].asks_the_same(then.queries[query_id])]
        counts = {
            "new": len(now.queries) - len(both),
            "gone": len(then.queries) - len(both),
            "with other words, spans or lost spans": len(both) - len(equal),
        }
        left_out = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
        ids = [query_id for query_id in equal if now.queries[query_id].is_measured]
        return cls(then, now, ids, f"; left out: {left_out}" if left_out else "")

    def find_loss(self, metric: str, then_mode: str, now_mode: str) -> Loss:
        return find_loss(metric, self.then.values(then_mode, metric, self.ids), self.now.values(now_mode, metric, self.ids))

    def changes(self, metric: str, then_mode: str, now_mode: str) -> tuple[Change, ...]:
        return _changes(metric, self.ids, self.then, then_mode, self.now, now_mode)


def evaluate_gates(candidate: Candidate, baseline: Baseline | None, settings: GateSettings) -> list[GateResult]:
    """The result of every gate, in the order of `checks.gates.GATES`."""
    now = candidate.measurement
    accepted = Pairs.of(baseline.baseline.measurement, now) if baseline else None
    judges: dict[str, Callable[[], GateResult]] = {
        names.FILES: lambda: _stored_files(candidate),
        names.LABELS: lambda: _labels(now),
        names.REPRODUCIBILITY: lambda: _reproducibility(candidate, baseline),
        names.PRIMARY: lambda: _primary(names.PRIMARY, accepted, settings, "the baseline"),
        names.OTHERS: lambda: _others(accepted, settings),
        names.BACKSTOP: lambda: _backstop(accepted, settings),
        names.CRITICAL: lambda: _critical(now, accepted, settings),
        names.FUSION: lambda: _fusion(now, settings),
        names.BEST_BRANCH: lambda: _best_branch(now, settings),
        names.RELEASE: lambda: _release(now, baseline, settings),
        names.FLOORS: lambda: _floors(candidate, accepted, settings),
        names.README: lambda: _readme(candidate, accepted, settings),
    }
    return [judges[gate]() for gate in names.GATES]


def _passed(gate: str, message: str) -> GateResult:
    return GateResult(gate, True, Severity.ERROR, message)


def _unable(gate: str, message: str) -> GateResult:
    """Passed, since there was nothing to look at."""
    return GateResult(gate, True, Severity.WARN, message)


def _failed(gate: str, message: str, details: Iterable[Change] = (), *, severity: Severity = Severity.ERROR) -> GateResult:
    return GateResult(gate, False, severity, message, tuple(details))


def _stored_files(candidate: Candidate) -> GateResult:
    if candidate.damaged:
        return _failed(names.FILES, f"not what was written: {_listed(candidate.damaged)}; {REPAIR}")
    return _passed(names.FILES, "all are as they were written")


def _labels(now: Measurement) -> GateResult:
    lost = [(query, span) for query in now.queries.values() for span in query.lost]
    if not lost:
        return _passed(names.LABELS, f"all spans of {len(now.queries)} queries resolve")
    said = f"gold_set.json: labels no longer resolve: no passage meets {len(lost)} judged spans, and none can be found there"
    fix = "mend their episodes, times or headings"
    details = [Change(UNRESOLVED, query.query_id, f"{query.query}: {span}", None, None, None, None) for query, span in lost]
    return _failed(names.LABELS, f"{said}: {fix}", details)


def _reproducibility(candidate: Candidate, baseline: Baseline | None) -> GateResult:
    """Against all that was measured of the very same: it must have come out the same, near ties aside."""
    now = candidate.measurement
    before = "the measurement before"
    references = {
        "the baseline": baseline.baseline.measurement if baseline else None,
        "the last release": baseline.release.measurement if baseline and baseline.release else None,
        before: candidate.earlier,
    }
    equal = {name: then for name, then in references.items() if then and then.fingerprint == now.fingerprint}
    for name, then in equal.items():
        moved = list(_moved(then, candidate))
        if moved:
            message = f"the same passages, queries and settings as of {name} gave other ranks: {len(moved)} moved"
            return _failed(names.REPRODUCIBILITY, f"{message}; something that is measured changed unseen", moved)
    # What is told of a pass doesn't depend on what was measured before: measured once or twice, the output is the same.
    if came_again := [name for name in equal if name != before]:
        return _passed(names.REPRODUCIBILITY, f"the ranks of {' and '.join(came_again)} came out again")
    if baseline is None:
        return _unable(names.REPRODUCIBILITY, NOTHING_ACCEPTED)
    return _passed(names.REPRODUCIBILITY, "what is measured is not what it was: nothing has to come out the same")


def _moved(then: Measurement, candidate: Candidate) -> Iterator[Change]:
    now = candidate.measurement
    for query_id, query in now.queries.items():
        before = then.queries.get(query_id)
        for mode, place in query.places.items():
            old = before.places.get(mode) if before else None
            if old is not None and not _is_same_place(old, place, candidate.results.get(mode, {}).get(query_id, ())):
                yield _change(MOVED, query, mode, old.ranks, place)


def _is_same_place(old: Place, new: Place, results: Sequence[tuple[str, float]]) -> bool:
    """Whether a place came out again, or differs only by results that all but tie."""
    scores = [score for _, score in results]
    if old.first != new.first:
        position = next((n for n, (chunk_id, _) in enumerate(results) if chunk_id == old.first), None)
        if position is None or abs(scores[0] - scores[position]) >= NEAR_TIE:
            return False
    return len(old.ranks) == len(new.ranks) and all(map(_is_near_tie, old.ranks, new.ranks, [scores] * len(new.ranks)))


def _is_near_tie(old: int | None, new: int | None, scores: Sequence[float]) -> bool:
    if old == new:
        return True
    # What isn't kept stands behind the last that is.
    at = [min(rank or len(scores), len(scores)) for rank in (old, new)]
    return bool(scores) and abs(scores[at[0] - 1] - scores[at[1] - 1]) < NEAR_TIE


def _nothing_to_pair(gate: str, pairs: Pairs | None) -> GateResult | None:
    """The result of a gate that compares with the baseline, where that can't be done."""
    if pairs is None:
        return _unable(gate, NOTHING_ACCEPTED)
    if pairs.ids:
        return None
    if not pairs.then.measured:
        return _unable(gate, f"the accepted baseline has no query to compare with: {ACCEPT}")
    reason = f"none of its {len(pairs.then.queries)} queries can be compared any more{pairs.told}"
    return _failed(gate, f"nothing says whether this is as good as the baseline: {reason}; {ACCEPT} if that is meant")


def _primary(gate: str, pairs: Pairs | None, settings: GateSettings, than: str) -> GateResult:
    """The default mode as it was then against the default mode as it is now: what people get."""
    nothing = _nothing_to_pair(gate, pairs)
    if pairs is None or nothing:
        return nothing or _unable(gate, NOTHING_ACCEPTED)
    then_mode, now_mode, metric = pairs.then.mode, pairs.now.mode, settings.metric
    loss = pairs.find_loss(metric, then_mode, now_mode)
    shown = _shown(_versus(then_mode, now_mode), metric, loss) + pairs.told
    if loss.p > settings.alpha:
        return _passed(gate, shown)
    return _failed(gate, f"significantly below {than}: {shown}", pairs.changes(metric, then_mode, now_mode))


def _others(pairs: Pairs | None, settings: GateSettings) -> GateResult:
    """Where no query differs there is nothing to test, and nothing to correct the others for (Tarone, Biometrics 1990)."""
    nothing = _nothing_to_pair(names.OTHERS, pairs)
    if pairs is None or nothing:
        return nothing or _unable(names.OTHERS, NOTHING_ACCEPTED)
    modes = [mode for mode in pairs.now.modes if mode in pairs.then.modes]
    primary = (pairs.now.mode, settings.metric) if pairs.now.mode == pairs.then.mode else None
    keys = [(mode, metric) for mode in modes for metric in RANK_METRICS if (mode, metric) != primary]
    found = {key: loss for key in keys if (loss := pairs.find_loss(key[1], key[0], key[0])).wins + loss.losses}
    corrected = dict(zip(found, holm([loss.p for loss in found.values()]), strict=True))
    fallen = [key for key, p in corrected.items() if p <= settings.alpha]
    if not fallen:
        return _passed(names.OTHERS, f"none of {len(keys)} figures fell more than by chance{pairs.told}")
    told = "; ".join(
        f"{_shown(mode, metric, found[mode, metric])}, corrected {_p(corrected[mode, metric])}" for mode, metric in fallen
    )
    details: dict[Change, None] = {}
    for mode, metric in fallen:
        details |= dict.fromkeys(pairs.changes(metric, mode, mode))
    return _failed(names.OTHERS, f"significantly below the baseline: {told}{pairs.told}", details)


def _backstop(pairs: Pairs | None, settings: GateSettings) -> GateResult:
    nothing = _nothing_to_pair(names.BACKSTOP, pairs)
    if pairs is None or nothing:
        return nothing or _unable(names.BACKSTOP, NOTHING_ACCEPTED)
    then_mode, now_mode, metric = pairs.then.mode, pairs.now.mode, settings.metric
    loss = pairs.find_loss(metric, then_mode, now_mode)
    shown, allowed = f"{_versus(then_mode, now_mode)} {_means(metric, loss)}", f"{100 * settings.max_drop:g} points"
    if -loss.difference <= settings.max_drop + 1e-9:
        return _passed(names.BACKSTOP, f"{shown}: no fall of more than {allowed}")
    message = f"{shown}: a fall of {-100 * loss.difference:.1f} points, where {allowed} may be{pairs.told}"
    return _failed(names.BACKSTOP, message, pairs.changes(metric, then_mode, now_mode))


def _critical(now: Measurement, pairs: Pairs | None, settings: GateSettings) -> GateResult:
    """A critical query that was not found either when the baseline was accepted was accepted like that."""
    within = settings.critical_within
    critical = [now.queries[query_id] for query_id in now.measured if now.queries[query_id].critical]
    missed = [query for query in critical if not _is_found(query.places[now.mode], within)]
    as_accepted, lost = [], []
    for query in missed:
        then = pairs.then.queries[query.query_id].places[pairs.then.mode] if pairs and query.query_id in pairs.ids else None
        if then is not None and not _is_found(then, within):
            as_accepted.append(query)
        else:
            change, old = (LOST, then.ranks) if then else (MISSED, None)
            lost.append(_change(change, query, now.mode, old, query.places[now.mode]))
    told = f"; {len(as_accepted)} missed, as accepted" if as_accepted else ""
    if not lost:
        found = len(critical) - len(missed)
        return _passed(names.CRITICAL, f"{found} of {len(critical)} critical queries found by {now.mode}{told}")
    message = f"{len(lost)} of {len(critical)} critical queries are not among the first {within} of {now.mode}{told}"
    return _failed(names.CRITICAL, message, lost, severity=Severity.ERROR if pairs else Severity.WARN)


def _is_found(place: Place, within: int) -> bool:
    return place.best is not None and place.best <= within


def _fusion(now: Measurement, settings: GateSettings) -> GateResult:
    """Less than one query's worth below is within what chance does to a gold set of that size."""
    ids, metric = now.measured, settings.metric
    fused = [mode for mode in FUSED_MODES if mode in now.modes]
    if not ids or not fused:
        return _unable(names.FUSION, NOTHING_MEASURED if not ids else "no mode is fused")
    failed: list[str] = []
    warned: list[str] = []
    told: list[str] = []
    details: list[Change] = []
    for mode in fused:
        losses = {branch: _against(now, branch, mode, metric) for branch in BRANCHES}
        weaker = min(BRANCHES, key=lambda branch: losses[branch].before)
        loss = losses[weaker]
        shown = f"{mode} {metric} {loss.after:.3f}, " + ", ".join(f"{name} {one.before:.3f}" for name, one in losses.items())
        told.append(shown)
        if loss.difference < 0:
            (failed if -loss.difference > 1 / len(ids) else warned).append(shown)
            details += _changes(metric, ids, now, weaker, now, mode)
    if failed:
        return _failed(names.FUSION, f"below the weaker of its branches: {'; '.join(failed)}", details)
    if warned:
        message = f"below the weaker of its branches, by less than one query's worth: {'; '.join(warned)}"
        return _failed(names.FUSION, message, details, severity=Severity.WARN)
    return _passed(names.FUSION, "; ".join(told))


def _best_branch(now: Measurement, settings: GateSettings) -> GateResult:
    """The default mode, and plain fusion besides: that it lies between unevenly matched branches is no fault, but told."""
    ids, metric = now.measured, settings.metric
    single = [mode for mode in now.modes if mode not in FUSED_MODES]
    if not ids or not single:
        return _unable(names.BEST_BRANCH, NOTHING_MEASURED)
    means = {mode: sum(now.values(mode, metric, ids).values()) / len(ids) for mode in single}
    best = max(single, key=lambda mode: means[mode])
    tested = [mode for mode in dict.fromkeys((now.mode, PLAIN_FUSION)) if mode in now.modes and mode != best]
    losses = {mode: _against(now, best, mode, metric) for mode in tested}
    below = [mode for mode in tested if losses[mode].p <= settings.alpha]
    shown = "; ".join(_shown(f"{mode} against {best}:", metric, losses[mode]) for mode in below or tested)
    if not below:
        return _passed(names.BEST_BRANCH, shown or f"{best} is the default mode")
    is_reference = below == [PLAIN_FUSION]
    why = ", as plain fusion of unevenly matched branches is" if is_reference else ""
    details = [change for mode in below for change in _changes(metric, ids, now, best, now, mode)]
    severity = Severity.WARN if is_reference else Severity.ERROR
    return _failed(names.BEST_BRANCH, f"significantly below the best branch{why}: {shown}", details, severity=severity)


def _against(now: Measurement, branch: str, mode: str, metric: str) -> Loss:
    ids = now.measured
    return find_loss(metric, now.values(branch, metric, ids), now.values(mode, metric, ids))


def _release(now: Measurement, baseline: Baseline | None, settings: GateSettings) -> GateResult:
    if baseline is None or baseline.release is None:
        return _passed(names.RELEASE, "no release is accepted yet: `librarian eval --accept --release` at the first one")
    than = f"the release of {baseline.release.accepted_at}"
    return _primary(names.RELEASE, Pairs.of(baseline.release.measurement, now), settings, than)


def _floors(candidate: Candidate, accepted: Pairs | None, settings: GateSettings) -> GateResult:
    floors = {(mode, metric): floor for mode, of_mode in settings.floors.items() for metric, floor in of_mode.items()}
    if not floors:
        return _passed(names.FLOORS, "the settings give none")
    if not candidate.figures:
        return _unable(names.FLOORS, NOTHING_MEASURED)
    unknown = [f"{mode} {metric}" for mode, metric in floors if (mode, metric) not in candidate.figures]
    if unknown:
        known = sorted({mode for mode, _ in candidate.figures}), sorted({metric for _, metric in candidate.figures})
        message = f"[gates.floors] names what is not measured: {_listed(unknown)}; there are {', '.join(known[0])}"
        return _failed(names.FLOORS, f"{message}; and {', '.join(known[1])}")
    low = {key: floor for key, floor in floors.items() if candidate.figures[key] < floor}
    if not low:
        return _passed(names.FLOORS, f"{len(floors)} figures are at or above their floors")
    told = "; ".join(f"{' '.join(key)} {candidate.figures[key]:.3f} < {floor:g}" for key, floor in low.items())
    details = [change for key in low for change in _behind(key, candidate.measurement, accepted)]
    return _failed(names.FLOORS, f"below the floor: {told}", dict.fromkeys(details))


def _readme(candidate: Candidate, accepted: Pairs | None, settings: GateSettings) -> GateResult:
    if settings.readme is None:
        return _passed(names.README, "the settings name no file")
    if candidate.readme is None:
        fix = "name another, or leave it out"
        return _failed(names.README, f"[gates] readme names {settings.readme}, which can't be read: {fix}")
    if not candidate.figures:
        return _unable(names.README, NOTHING_MEASURED)
    found = differences(candidate.readme, candidate.figures)
    if found is NO_TABLE:
        return _failed(names.README, f"{settings.readme} has no table whose header begins with `Retrieval mode`")
    if not found:
        return _passed(names.README, f"the table of {settings.readme} is the measured one")
    told = "; ".join(found.values())
    modes = list(dict.fromkeys(mode for mode, _ in found if mode in candidate.measurement.modes))
    details = [change for mode in modes for change in _behind((mode, settings.metric), candidate.measurement, accepted)]
    return _failed(names.README, f"the table of {settings.readme} is not the measured one: {told}; mend it", details)


def _behind(key: tuple[str, str], now: Measurement, accepted: Pairs | None) -> Iterable[Change]:
    """The queries behind a figure: what changed since the baseline, or without one, what is missed."""
    mode, metric = key
    by = metric if metric in RANK_METRICS else RANK_METRICS[0]
    if accepted and accepted.ids and mode in accepted.then.modes:
        return accepted.changes(by, mode, mode)
    queries = (now.queries[query_id] for query_id in now.measured)
    return [
        _change(MISSED, query, mode, None, query.places[mode])
        for query in queries
        if value(by, query.places[mode].ranks) == 0
    ]


def _changes(
    metric: str, ids: Sequence[str], then: Measurement, then_mode: str, now: Measurement, now_mode: str
) -> tuple[Change, ...]:
    """The queries that a metric lost, the largest losses first, then those that it won."""
    before, after = then.values(then_mode, metric, ids), now.values(now_mode, metric, ids)
    by_difference = sorted(ids, key=lambda query_id: after[query_id] - before[query_id])
    differ = [query_id for query_id in by_difference if after[query_id] != before[query_id]]
    return tuple(
        _change(
            LOST if after[query_id] < before[query_id] else WON,
            now.queries[query_id],
            _versus(then_mode, now_mode),
            then.queries[query_id].places[then_mode].ranks,
            now.queries[query_id].places[now_mode],
        )
        for query_id in differ
    )


def _change(change: str, query: QueryRanks, mode: str, old: Ranks | None, place: Place) -> Change:
    first = f"{place.citation} ({place.first})" if place.citation else place.first
    return Change(change, query.query_id, query.query, mode, _ranks(old), _ranks(place.ranks), first or "nothing")


def _ranks(ranks: Ranks | None) -> str | None:
    return ", ".join("-" if rank is None else str(rank) for rank in ranks) if ranks is not None else None


def _versus(then_mode: str, now_mode: str) -> str:
    return now_mode if then_mode == now_mode else f"{then_mode} -> {now_mode}"


def _means(metric: str, loss: Loss) -> str:
    return f"{metric} {loss.before:.3f} -> {loss.after:.3f}"


def _shown(mode: str, metric: str, loss: Loss) -> str:
    return f"{mode} {_means(metric, loss)} ({loss.wins} won, {loss.losses} lost of {loss.n}; {_p(loss.p)})"


def _p(p: float) -> str:
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def _listed(things: Sequence[str]) -> str:
    return ", ".join(things[:5]) + (f" and {len(things) - 5} more" if len(things) > 5 else "")
