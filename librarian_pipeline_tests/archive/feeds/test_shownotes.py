import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from librarian_pipeline.archive.feeds.rss import Chapter
from librarian_pipeline.archive.feeds.shownotes import description_to_text, parse_chapters, write_notes
from librarian_pipeline.archive.notes import read_front_matter, read_notes
from librarian_pipeline.errors import SourceError
from librarian_pipeline_tests.archive.feeds.test_naming import item


def test_notes_have_front_matter_the_description_and_a_section_for_each_chapter() -> None:
    one = replace(item('Tea: "slow" # 3', day=0), language="en-GB", description="<p>About <b>tea</b>.</p>")
    chapters = [
        Chapter(0, "Start", None),
        Chapter(483_900, "The *leak*", "https://tea.example/leak"),
        Chapter(4_083_000, "", None),
    ]
    assert (
        write_notes(one, chapters)
        == """---
title: "Tea: \\"slow\\" # 3"
date: 2024-03-05
language: en
---

About tea.

## [00:00] Start

## [08:03] The \\*leak\\*

https://tea.example/leak

## [1:08:03]
"""
    )


def test_notes_are_read_back_as_they_were_meant(tmp_path: Path) -> None:
    one = replace(item('Tea: "slow"\u2028 # 3', day=0), language="Klingon", description="Hello there.")
    path = tmp_path / "ep.md"
    path.write_text(write_notes(one, [Chapter(483_000, "The *leak* 5 < 6", None)]), encoding="utf-8")
    front = read_front_matter(path)
    assert (front.title, front.published_at, front.language) == ('Tea: "slow" # 3', "2024-03-05", None)
    sections = [(row["heading"], row["start_ms"], row["text"]) for row in read_notes(path, "ep")]
    assert sections == [(None, None, "Hello there."), ("The *leak* 5 < 6", 483_000, "")]


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>One</p><p>two</p>", "One\n\ntwo"),
        ("One<br/>two<br>three", "One\ntwo\nthree"),
        ("One\ntwo", "One\ntwo"),
        ("<p>One\ntwo</p>", "One two"),
        ("Tea &amp; milk", "Tea & milk"),
        ('See <a href="https://tea.example/a_b">the <b>page</b></a>.', "See the page (https://tea.example/a_b)."),
        ('<a href="https://tea.example/">https://tea.example</a>', "https://tea.example"),
        ('<a href="https://tea.example/"><img src="x"></a>', "https://tea.example/"),
        ('<a href="javascript:alert(1)">tea</a>', "tea"),
        ("<ul><li>One</li><li><p>two</p></li></ul>end", "- One\n- two\n\nend"),
        ("<script>if (1) { steal() }</script><style>p {}</style>tea", "tea"),
        ("<h2>Links</h2>tea", "Links\n\ntea"),
        ("08:03 The leak\n12:00 The end", "08:03 The leak\n12:00 The end"),
        ("1. first\n# loud\n- dash\n> said", "1\\. first\n\\# loud\n\\- dash\n\\> said"),
        ("words\n---\nmore", "words\n\\---\nmore"),
        ("snake_case and _this_", "snake_case and \\_this\\_"),
        ("<p>a<b>c", "ac"),
        ("tea<!-- hidden <b> --> and<!-- never ends <p>milk", "tea and"),
        ("<p>1 < 2 and <unknown>tea</unknown></p>", "1 < 2 and tea"),
        ("<A HREF=https://tea.example/?a=1&amp;b=2>tea</A>", "tea (https://tea.example/?a=1&b=2)"),
        ("", ""),
    ],
)
def test_a_description_becomes_plain_text(html: str, text: str) -> None:
    assert description_to_text(html) == text


@pytest.mark.parametrize(
    "piece", ["<!--", "<a ", "<a href='", "</", "<![", "<script>", "<a>", "<li>", "&#", "<", "[", "_", "\n"]
)
def test_markup_that_never_ends_takes_no_longer_than_other_text(piece: str) -> None:
    started = time.monotonic()
    description_to_text("<p>" + piece * 30_000)
    assert time.monotonic() - started < 3


@given(st.text(alphabet="ab1 \n#*_`~-=+>.()[]<&;:|\\!\u010d\x85", max_size=40))
@settings(max_examples=400, deadline=None)
def test_the_words_of_a_plain_description_come_back_out_of_the_notes(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.md"
    lines = [line for line in ("ab1" + text.replace("<", "< ").replace("&", "& ")).splitlines() if line.strip()]
    path.write_text(write_notes(replace(item("T"), description="\n".join(lines)), []), encoding="utf-8")
    read = " ".join(filter(None, (part for row in read_notes(path, "ep") for part in (row["heading"], row["text"]))))
    assert read.split() == " ".join(lines).split()


@given(st.text(), st.text(), st.text())
@settings(max_examples=200, deadline=None)
def test_whatever_a_feed_says_its_notes_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, title: str, description: str, chapter: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "anything.md"
    one = replace(item(title, day=0), description=description)
    path.write_text(write_notes(one, [Chapter(1_000, chapter, chapter)]), encoding="utf-8")
    assert read_front_matter(path).published_at == "2024-03-05"
    assert [row["start_ms"] for row in read_notes(path, "ep")][-1] == 1_000


def test_chapters_of_a_json_file_come_by_time_without_hidden_and_unusable_ones() -> None:
    content = b"""\xef\xbb\xbf{"version": "1.2.0", "chapters": [
        {"startTime": 63.5, "title": " The\\n leak ", "url": "https://tea.example/leak"}, {"startTime": 0, "title": "Start"},
        {"startTime": 5, "title": "picture only", "toc": false}, {"startTime": -1, "title": "x"},
        {"startTime": "9", "title": "x"},
        {"startTime": NaN, "title": "x"}, {"startTime": true, "title": "x"}, {"title": "x"}, 7,
        {"startTime": 70, "title": 1}]}"""
    assert parse_chapters(content) == (
        Chapter(0, "Start", None),
        Chapter(63_500, "The leak", "https://tea.example/leak"),
        Chapter(70_000, "", None),
    )


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b"{}", b'{"chapters": {}}', b"\xff", b"[" * 100_000])
def test_what_is_not_a_chapters_file_is_refused(content: bytes) -> None:
    with pytest.raises(SourceError, match="JSON"):
        parse_chapters(content)
