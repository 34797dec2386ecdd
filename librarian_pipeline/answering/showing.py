"""An answer as people read it."""

from librarian_pipeline.answering.answer import Answer


def answer_lines(answer: Answer) -> list[str]:
    lines = [f"refused: {answer.why}"] if answer.why else []
    for claim in answer.claims:
        lines += [f"“{_in_one_line(claim.text)}”", f"   {claim.citation.text}"]
    return [*lines, f"snapshot: {answer.snapshot}"]


def aside_lines(answer: Answer) -> list[str]:
    """For stderr: what is not as it should be."""
    lines = [f"warning: {answer.warning}"] if answer.warning else []
    lines += [f"note: {answer.note}"] if answer.note else []
    return lines + ([f"note: {answer.dropped} claims did not pass the check"] if answer.dropped else [])


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
