import pytest

from librarian_pipeline.answering.answer import VERIFIED, Answer, Claim
from librarian_pipeline.answering.showing import answer_lines, aside_lines
from librarian_pipeline.retrieval.citations import Citation


def answer(text: str, dropped: int = 0) -> Answer:
    claim = Claim(text, "ep01:t000", text, Citation("Ep. ep01 @ 00:08", "ep01", 8_000), VERIFIED)
    return Answer("answered", None, (claim,), "a snapshot", dropped=dropped)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("grain before\nit was milled.", "“… grain before it was milled.”"),
        ("řekl to včera.", "“… řekl to včera.”"),
        ("(so it was)", "“… (so it was)”"),
        ("Řekl to včera.", "“Řekl to včera.”"),
        ("“Well,” she said.", "““Well,” she said.”"),
        ("12 sacks of salt.", "“12 sacks of salt.”"),
    ],
)
def test_a_quote_is_one_line_and_after_dots_where_it_begins_within_a_sentence(text: str, shown: str) -> None:
    assert answer_lines(answer(text)) == [shown, "   Ep. ep01 @ 00:08", "snapshot: a snapshot"]


@pytest.mark.parametrize(("dropped", "told"), [(0, []), (1, ["note: 1 claim did not pass the check"])])
def test_claims_that_did_not_pass_are_counted(dropped: int, told: list[str]) -> None:
    assert aside_lines(answer("Salt came on mules.", dropped)) == told
