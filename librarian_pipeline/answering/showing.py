"""An answer as people read it."""

from librarian_pipeline.answering.answer import Answer


def answer_lines(answer: Answer) -> list[str]:
    lines = [f"refused: {answer.why}"] if answer.why else []
    for claim in answer.claims:
        lines += [f"“{_quoted(claim.text)}”", f"   {claim.citation.text}"]
    return [*lines, f"snapshot: {answer.snapshot}"]


def aside_lines(answer: Answer) -> list[str]:
    """For stderr: what is not as it should be."""
    lines = [f"warning: {answer.warning}"] if answer.warning else []
    lines += [f"note: {answer.note}"] if answer.note else []
    claims = "1 claim" if answer.dropped == 1 else f"{answer.dropped} claims"
    return lines + ([f"note: {claims} did not pass the check"] if answer.dropped else [])


def _quoted(text: str) -> str:
    """In one line, after dots where it begins within a sentence, as passages of speech at times do."""
    first = next(filter(str.isalnum, text), "")
    return ("… " if first.islower() else "") + " ".join(text.split())
