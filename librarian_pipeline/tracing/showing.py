"""A trace as lines for people to read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from librarian_pipeline.archive.timecodes import format_exact, format_timecode
from librarian_pipeline.evaluation.scoring import DEPTH
from librarian_pipeline.retrieval.modes import MODES
from librarian_pipeline.speech.weights import packaged_name
from librarian_pipeline.tracing.outputs import OutputTrace
from librarian_pipeline.tracing.passage import FileSource, PassageTrace, SegmentTrace
from librarian_pipeline.tracing.query import QueryTrace, RankedPassage, TermsHeld
from librarian_pipeline.tracing.trace import Trace

SHORT = 12
TEXT_CHARACTERS = 300


def lines_of(trace: Trace) -> Iterator[str]:
    if trace.query is not None:
        yield from _query_lines(trace.query)
        yield ""
    for passage in trace.passages:
        yield from _passage_lines(passage)
        yield ""
    yield "derived by"
    for output in trace.outputs:
        yield from _output_lines(output)


def _query_lines(query: QueryTrace) -> Iterator[str]:
    critical = ", critical" if query.critical else ""
    yield f"query {query.query_id} ({query.language}, {query.kind}, {query.split}{critical}): {_one_line(query.query)}"
    yield from (f"  note: {remark}" for remark in query.remarks)
    for span in query.spans:
        yield f"judged: {_one_line(span.span)}" + ("" if span.passages else ": no passage meets it")
        yield from _rank_table(span.passages, query)
    found = {mode: passage for mode, passage in query.first.items() if passage is not None}
    if found:
        yield "first in each mode"
        by_id = {passage.chunk_id: passage for passage in found.values()}
        yield from _rank_table(by_id.values(), query)
    yield from _held_lines(query)


def _rank_table(passages: Iterable[RankedPassage], query: QueryTrace) -> Iterator[str]:
    rows = [[passage.chunk_id, passage.citation, *(_rank(passage, mode, query) for mode in MODES)] for passage in passages]
    if rows:
        yield from _columns([["passage", "", *MODES], *rows])


def _rank(passage: RankedPassage, mode: str, query: QueryTrace) -> str:
    rank, score = passage.ranks[mode], passage.scores[mode]
    if rank is not None:
        return f"{rank} ({score:.3f})"
    if not query.is_measured:
        return "?"
    return f"not in the first {DEPTH}" if query.n_results[mode] >= DEPTH else "not found"


def _held_lines(query: QueryTrace) -> Iterator[str]:
    if query.held:
        yield "words of the query that they hold, each with what it adds to the score and its idf"
    for held in query.held:
        yield f"  {held.mode}  {held.chunk_id}  {_terms(held)}"


def _terms(held: TermsHeld) -> str:
    found = [f"{term.term} {term.weight:.2f} ({term.idf:.2f})" for term in held.terms if term.weight is not None]
    return ", ".join(found) or "none"


def _passage_lines(passage: PassageTrace) -> Iterator[str]:
    when = "" if passage.start_ms is None else f", {_span(passage.start_ms, passage.end_ms)}"
    yield f"passage {passage.chunk_id}: {passage.citation}"
    yield f"  {passage.layer}, {passage.language}, {passage.n_words} words{when}"
    if passage.heading:
        yield f"  heading: {_one_line(passage.heading)}"
    yield f"  {_shortened(passage.text)}"
    yield from (f"  note: {remark}" for remark in passage.remarks)
    yield from _source_lines(passage)
    if passage.segments:
        yield "cut from"
        yield from (_segment_line(segment) for segment in passage.segments)
    if passage.left_out:
        yield "left out of it"
        yield from (_segment_line(segment) for segment in passage.left_out)
    yield f"indexed as {_indexed(passage)}"


def _source_lines(passage: PassageTrace) -> Iterator[str]:
    if passage.audio is not None:
        audio = passage.audio
        length = f" of {format_timecode(audio.duration_ms)}" if audio.duration_ms is not None else ""
        damage = f", {audio.status}: {audio.status_reason}" if audio.status_reason else ""
        facts = f"{audio.codec or 'unknown codec'}, sha256 {_short(audio.sha256)}{damage}"
        yield f"heard in {audio.path} at {_span(audio.start_ms, audio.end_ms)}{length} ({facts})"
    if passage.published is not None:
        yield f"written in {_file(passage.published)}"
    if passage.section is not None:
        section = passage.section
        heading = f' "{_one_line(section.heading)}"' if section.heading else ""
        kind = "chapter in the tags, row" if section.is_from_tags else "section"
        yield f"written in {_file(section.source)}, {kind} {section.section_idx}{heading}"


def _file(source: FileSource) -> str:
    return f"{source.path or 'a file that is gone'} (sha256 {_short(source.sha256)})"


def _segment_line(segment: SegmentTrace) -> str:
    facts = [segment.source]
    if segment.window_id is not None:
        facts.append(f"window {segment.window_id}")
    if segment.decoding_pass is not None:
        facts.append(f"pass {segment.decoding_pass}")
    if segment.avg_logprob is not None:
        facts.append(f"avg_logprob {segment.avg_logprob:.2f}")
    facts += [f"flag {flag}" for flag in segment.flags]
    if not segment.is_whole:
        facts.append("in part")
    speaker = f"{_one_line(segment.speaker)}: " if segment.speaker else ""
    when = _span(segment.start_ms, segment.end_ms)
    return f"  {segment.segment_idx:>4}  {when}  {speaker}{_shortened(segment.text)}  [{', '.join(facts)}]"


def _indexed(passage: PassageTrace) -> str:
    indexed, parts = passage.indexed, []
    if indexed.bm25_raw_terms is not None:
        parts.append(f"{indexed.bm25_raw_terms} words (bm25_raw)")
    if indexed.bm25_stem_terms is not None:
        parts.append(f"{indexed.bm25_stem_terms} terms by {indexed.normalizer} (bm25_stem)")
    if indexed.vector is not None:
        vector = indexed.vector
        tokens = f", {vector.n_tokens} tokens" if vector.n_tokens is not None else ""
        limit = f" of at most {vector.max_tokens}" if tokens and vector.max_tokens is not None else ""
        parts.append(f"a vector of {vector.dimensions} by {vector.model} {_short(vector.digest)}{tokens}{limit} (dense)")
    return ", ".join(parts) or "nothing yet"


def _output_lines(output: OutputTrace) -> Iterator[str]:
    state = ": ".join([output.state, *(["; ".join(output.reasons)] if output.reasons else [])])
    if output.version is None:
        yield f"  {output.item}  {state}"
        return
    rows = f"{output.rows} row{'' if output.rows == 1 else 's'}"
    yield f"  {output.item}  version {_short(output.version)}, {rows}, {state}"
    yield f"    recipe {output.recipe_fingerprint}: {_recipe(output.recipe)}"
    inputs = [f"{i.name} {_short(i.version)}{'' if i.is_current else ' (changed since)'}" for i in output.inputs]
    others = [f"{output.n_other_inputs} of other episodes"] if output.n_other_inputs else []
    yield f"    from {', '.join([*inputs, *others]) or 'nothing'}"


def _recipe(recipe: Mapping[str, Any]) -> str:
    """Without the columns, whose hash tells people nothing."""
    return ", ".join(f"{key} {_value(value)}" for key, value in _flat(recipe) if key != "columns")


def _flat(recipe: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in recipe.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _value(value: Any) -> str:
    if not isinstance(value, str):
        return str(value)
    name = packaged_name(value)
    return f"{_short(value)} ({name})" if name else _short(value)


def _short(version: str | None) -> str:
    """Digests as short as they can be told apart; other values whole."""
    if version is None:
        return "unknown"
    return version[:SHORT] if len(version) == 64 and " " not in version else version


def _span(start_ms: int, end_ms: int | None) -> str:
    return format_exact(start_ms) + (f"-{format_exact(end_ms)}" if end_ms is not None else "")


def _shortened(text: str) -> str:
    line = _one_line(text)
    return line if len(line) <= TEXT_CHARACTERS else line[: TEXT_CHARACTERS - 1] + "…"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
