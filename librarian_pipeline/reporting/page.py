"""The report as one HTML page that needs nothing else: no script, no font, no picture, no network."""

import json
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import pyarrow.compute as pc

from librarian_pipeline.archive.timecodes import format_timecode
from librarian_pipeline.checks import Severity
from librarian_pipeline.evaluation.history import last_measurements
from librarian_pipeline.evaluation.history_plot import history_svg
from librarian_pipeline.reporting.contents import PLOTTED, Contents, Rows
from librarian_pipeline.reporting.markup import Child, Markup, element, folded, join, listed, table
from librarian_pipeline.reporting.style import CSS

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
HEADLINE = ("R@1", "R@3", "R@5", "MRR")
WITHIN_S = (30, 60, 120)
LAST_MEASUREMENTS = 12
MOST_ROWS = 200
"""Of a table of which nothing is known beforehand."""
SHORT_DIGEST = 12


def page(contents: Contents) -> str:
    """The whole page."""
    sections = [
        ("scores", "Scores", _scores(contents)),
        ("gates", "Gates", _gates(contents.gates)),
        ("history", "History", _history(contents)),
        ("jump-in", "Jump-in", _jump_ins(contents.jump_ins)),
        ("gold-set", "The gold set", _hygiene(contents)),
        ("episodes", "Episodes", _episodes(contents)),
        ("models", "Models and recipes", _models(contents)),
        ("out-of-date", "Out of date", _out_of_date(contents)),
    ]
    shown = [(anchor, title, children) for anchor, title, children in sections if children]
    name = contents.home.rstrip("/").rpartition("/")[2] or contents.home
    made_at = f"{contents.made_at:%Y-%m-%d %H:%M} UTC"
    body = [
        element(
            "header",
            element("h1", f"The Librarian: {name}"),
            element("p", f"{contents.home}, as it was on {made_at}. {contents.caption}", class_="soft"),
            _tiles(contents),
            element(
                "nav", listed(element("a", title, href=f"#{anchor}") for anchor, title, _ in shown), aria_label="Sections"
            ),
        ),
        element("main", *(_section(anchor, title, children) for anchor, title, children in shown)),
        element("footer", element("p", "Written by `librarian report`. This page needs no network and runs no script.")),
    ]
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">'
        f"{element('title', f'The Librarian: {name}')}<style>{CSS}</style>"
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{join(body)}</body></html>\n'


def _section(anchor: str, title: str, children: Sequence[Child]) -> Markup:
    heading = element("h2", title, id=f"{anchor}-title")
    return element("section", heading, *children, id=anchor, aria_labelledby=f"{anchor}-title")


def _tiles(contents: Contents) -> Markup:
    failed = [gate for gate in contents.gates if not gate["passed"]]
    noted = [episode for episode in contents.episodes if episode["findings"] or episode["status"] != "ok"]
    wrong = [check for check in contents.hygiene if not check.passed]
    n_gates = len(contents.gates)
    tiles: list[tuple[str, Child]] = [
        ("Published snapshot", contents.snapshot[:SHORT_DIGEST] if contents.snapshot else "none"),
        ("Gates", _mark(f"{n_gates - len(failed)} of {n_gates} passed", not failed) if n_gates else "none measured"),
        ("Gold set", _mark(_count(len(wrong), "finding"), not wrong, "warn") if contents.hygiene else "none"),
        ("Episodes", _mark(f"{len(contents.episodes)}, {len(noted)} with findings", not noted, "warn")),
        (
            "Out of date",
            _mark(
                _count(len(contents.out_of_date), "output") if contents.out_of_date else "nothing",
                not contents.out_of_date,
                "warn",
            ),
        ),
    ]
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in tiles), class_="tiles"
    )


def _mark(text: str, is_good: bool, otherwise: str = "bad") -> Markup:
    return element("span", text, class_="good" if is_good else otherwise)


def _count(n: int, thing: str) -> str:
    return f"{n or 'no'} {thing}{'' if n == 1 else 's'}"


def _scores(contents: Contents) -> list[Child]:
    if not contents.scores:
        return ["Nothing has been measured yet: `librarian run` does, once there is a gold/gold_set.json."]
    modes = list(dict.fromkeys(row["mode"] for row in contents.scores))
    metrics = list(dict.fromkeys(row["metric"] for row in contents.scores))
    headline = [metric for metric in HEADLINE if metric in metrics] or metrics
    found = {(row["mode"], row["metric"], row["slice"]): row for row in contents.scores}
    n = max(row["n_queries"] for row in contents.scores)
    intervals = f"intervals of {contents.confidence:.0%}"
    parts: list[Child] = [
        element(
            "p",
            "R@k is the share of the judged passages among the first k results, MRR the mean of 1 / rank of the first one. "
            f"The bar reaches as far as the interval of {contents.confidence:.0%}; the best of a column is bold.",
        ),
        _figures(f"All {n} queries, {intervals}", modes, headline, found, "all"),
    ]
    others = [metric for metric in metrics if metric not in headline]
    if others:
        parts.append(folded("Other metrics", _figures(f"All {n} queries, {intervals}", modes, others, found, "all")))
    slices = [name for name in dict.fromkeys(row["slice"] for row in contents.scores) if name != "all"]
    if slices:
        for metric in metrics:
            by_slice = table(
                f"{metric} by language, kind and split, {intervals}",
                ["", "queries", *modes],
                [_slice_row(name, metric, modes, found) for name in slices],
                numbers_from=1,
            )
            parts.append(folded(f"{metric} by language, kind and split", by_slice, is_open=metric == PLOTTED))
    return parts


Found = Mapping[tuple[str, str, str], Mapping[str, Any]]


def _figures(caption: str, modes: Sequence[str], metrics: Sequence[str], found: Found, part: str) -> Markup:
    values = {
        metric: [found[mode, metric, part]["value"] for mode in modes if (mode, metric, part) in found] for metric in metrics
    }
    best = {metric: max(known, default=None) for metric, known in values.items()}
    rows = [[mode, *(_figure(found.get((mode, metric, part)), best[metric]) for metric in metrics)] for mode in modes]
    return table(caption, ["Retrieval mode", *metrics], rows, numbers_from=1)


def _slice_row(name: str, metric: str, modes: Sequence[str], found: Found) -> list[Child]:
    rows = [found.get((mode, metric, name)) for mode in modes]
    known = [row for row in rows if row is not None]
    best = max((row["value"] for row in known), default=None)
    return [name, str(max((row["n_queries"] for row in known), default=0)), *(_figure(row, best) for row in rows)]


def _figure(row: Mapping[str, Any] | None, best: float | None) -> Markup:
    """A figure with its interval, in numbers and, where it is a share, drawn from 0 to 1."""
    if row is None or row["value"] is None:
        return element("span", "", class_="soft")
    value, low, high = row["value"], row["ci_low"], row["ci_high"]
    parts: list[Child] = [element("span", f"{value:.2f}", class_="best" if value == best else None)]
    if low is not None and high is not None:
        parts.append(element("span", f"{low:.2f} to {high:.2f}", class_="interval"))
        if 0 <= low <= value <= high <= 1:
            parts.append(_drawn_interval(low, value, high))
    return join(parts)


def _drawn_interval(low: float, value: float, high: float) -> Markup:
    line = '<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="5" y2="5"/>'
    drawn = line.format("axis", 2, 98) + line.format("reach", 2 + 96 * low, 2 + 96 * high)
    dot = f'<circle class="value" cx="{2 + 96 * value:.1f}" cy="5" r="4"/>'
    return Markup(f'<svg class="span" viewBox="0 0 100 10" aria-hidden="true">{drawn}{dot}</svg>')


def _gates(gates: Rows) -> list[Child]:
    if not gates:
        return []
    rows = [[gate["gate"], _verdict(gate["passed"], gate["severity"]), gate["message"]] for gate in gates]
    parts: list[Child] = [table("Each gate of the last measurement", ["Gate", "", ""], rows)]
    for gate in gates:
        details = _parsed(gate.get("details"))
        if details:
            parts.append(folded(f"{gate['gate']}: details", _anything(f"Details of {gate['gate']}", details)))
    return parts


def _verdict(passed: bool, severity: str) -> Markup:
    if passed:
        return _mark("passed", True)
    is_warning = str(severity).lower() == Severity.WARN
    return _mark("warning" if is_warning else "failed", False, "warn" if is_warning else "bad")


def _parsed(details: Any) -> Any:
    """JSON where it is that; otherwise as it is."""
    if not isinstance(details, str):
        return details
    try:
        return json.loads(details)
    except ValueError:
        return details


def _anything(caption: str, value: Any) -> Markup:
    """Rows as a table, other things as lists and text."""
    if isinstance(value, Mapping):
        return join(
            element("div", element("p", element("strong", str(key))), _anything(str(key), inner))
            for key, inner in value.items()
        )
    if isinstance(value, Sequence) and not isinstance(value, str):
        if value and all(isinstance(row, Mapping) for row in value):
            header = list(dict.fromkeys(str(key) for row in value for key in row))
            rows = [[_text(row.get(key)) for key in header] for row in value[:MOST_ROWS]]
            more = f", the first {MOST_ROWS} of {len(value)}" if len(value) > MOST_ROWS else ""
            return table(f"{caption}{more}", header, rows)
        return listed(_text(one) for one in value)
    return element("p", _text(value))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _history(contents: Contents) -> list[Child]:
    history = contents.history
    if not history.num_rows:
        return []
    plot = element(
        "div",
        Markup(history_svg(history, PLOTTED, name="plot")),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label="Plot",
    )
    n_measurements = len(pc.unique(history.column("measurement")))
    measurements: dict[str, dict[str, Any]] = {}
    for row in last_measurements(history, LAST_MEASUREMENTS).to_pylist():
        figures = measurements.setdefault(row["measurement"], {**row, "figures": {}})["figures"]
        figures[row["mode"]] = row["value"]
    last = list(measurements.values())[::-1]
    modes = sorted({mode for one in last for mode in one["figures"]})
    rows = [
        [
            element("span", one["measured_at"][:16].replace("T", " "), class_="moment"),
            one["trigger"],
            element("code", one["fingerprint"]),
            *(f"{one['figures'][mode]:.3f}" if mode in one["figures"] else "" for mode in modes),
        ]
        for one in last
    ]
    caption = f"{PLOTTED} of the last {len(last)} of {n_measurements} measurements; equal fingerprints measure the same"
    return [plot, table(caption, ["When (UTC)", "started by", "fingerprint", *modes], rows, numbers_from=3)]


def _jump_ins(jump_ins: Rows) -> list[Child]:
    """How near the cited second is to the judged start; a table of another form is shown as it is."""
    if not jump_ins:
        return []
    if not {"mode", "offset_ms"} <= jump_ins[0].keys():
        return [folded(f"{len(jump_ins)} rows", _anything("Jump-in", jump_ins))]
    offsets: dict[str, list[float]] = {}
    for row in jump_ins:
        if row["offset_ms"] is not None:
            offsets.setdefault(row["mode"], []).append(row["offset_ms"] / 1000)
    rows = [
        [
            mode,
            str(len(found)),
            *(f"{sum(abs(offset) <= within for offset in found) / len(found):.2f}" for within in WITHIN_S),
            f"{median(found):+.0f} s",
        ]
        for mode, found in offsets.items()
    ]
    header = ["Retrieval mode", "queries", *(f"within {within} s" for within in WITHIN_S), "median offset"]
    return [
        table(
            "From the cited second of the first result to the judged start, where it has one", header, rows, numbers_from=1
        )
    ]


def _hygiene(contents: Contents) -> list[Child]:
    if not contents.hygiene:
        return []
    parts: list[Child] = []
    for check in contents.hygiene:
        mark = _verdict(check.passed, check.severity)
        said = join([mark, f" {check.message}"])
        parts.append(folded(said, listed(check.offenders)) if check.offenders else element("p", said))
    return parts


def _episodes(contents: Contents) -> list[Child]:
    rows = [
        [
            episode["episode_id"],
            episode["title"] or "",
            episode["published_at"] or "",
            episode["language"] or "",
            format_timecode(episode["duration_ms"]) if episode["duration_ms"] else "",
            str(episode["n_chunks_notes"] + episode["n_chunks_transcript"]),
            _status(episode),
        ]
        for episode in contents.episodes
    ]
    header = ["Episode", "title", "date", "language", "length", "passages", "status"]
    parts: list[Child] = [table(f"{len(rows)} episodes", header, rows)] if rows else []
    return [*parts, element("p", "Files that are left out:"), listed(contents.left_out)] if contents.left_out else parts


def _status(episode: Mapping[str, Any]) -> Markup:
    status = ": ".join(filter(None, [episode["status"], episode["status_reason"]]))
    findings = [
        element(
            "div", f"{finding['check']}: {finding['message']}", class_="bad" if finding["severity"] == "error" else "warn"
        )
        for finding in episode["findings"] or ()
    ]
    return join([_mark(status, episode["status"] == "ok", "warn"), *findings])


def _models(contents: Contents) -> list[Child]:
    models = [[model.purpose, model.name, model.source, element("code", model.digest[:16])] for model in contents.models]
    outputs = [
        [output.asset, str(output.n_partitions), str(output.n_rows), _codes(output.recipes)] for output in contents.outputs
    ]
    return [
        table("Models in use; the digests were checked", ["For", "model", "from", "sha256"], models),
        table("What is stored, and the recipes it was made by", ["Asset", "partitions", "rows", "recipes"], outputs),
        element("p", f"Published snapshot: {contents.snapshot or 'none'}"),
    ]


def _codes(recipes: Iterable[str]) -> Markup:
    return join(Markup(f"{element('code', recipe)} ") for recipe in recipes)


def _out_of_date(contents: Contents) -> list[Child]:
    if not contents.out_of_date:
        return [element("p", "All outputs are up to date.", class_="good")]
    shown = contents.out_of_date[:MOST_ROWS]
    rows = [[item, verdict.state, "; ".join(verdict.reasons)] for item, verdict in shown]
    more = f", the first {MOST_ROWS}" if len(contents.out_of_date) > MOST_ROWS else ""
    caption = f"{len(contents.out_of_date)} outputs{more}; `librarian run` brings them up to date"
    return [table(caption, ["Output", "state", "why"], rows)]
