import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from librarian_pipeline.archive.notes import FrontMatter, read_front_matter, read_notes
from librarian_pipeline.archive.timecodes import MAX_MS, format_timecode
from librarian_pipeline.errors import SourceError
from librarian_pipeline.storage.schemas import NOTES


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "ep03.md"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def sections(folder: Path, content: str) -> list[tuple[Any, ...]]:
    """(heading, start_ms, text) of each section; detection is left out, because it is slow."""
    rows = read_notes(write(folder, f"---\nlanguage: en\n---\n{content}"), "ep03")
    return [(row["heading"], row["start_ms"], row["text"]) for row in rows]


# Front matter


def test_front_matter_gives_title_date_language_and_guests(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '---\ntitle: "Tea: a survey"\ndate: 2024-03-05\nlanguage: en\nguests:\n  - Ola Brewer\n  - Jiří Čaj\n---\nText.\n',
    )
    assert read_front_matter(path) == FrontMatter("Tea: a survey", "2024-03-05", "en", ("Ola Brewer", "Jiří Čaj"))


def test_values_that_look_like_numbers_times_or_booleans_stay_as_they_are_written(tmp_path: Path) -> None:
    path = write(tmp_path, "---\ntitle: 1:02:03\nlanguage: no\nguests: [0501, yes, 12:34]\n---\n")
    assert read_front_matter(path) == FrontMatter("1:02:03", None, "no", ("0501", "yes", "12:34"))


@pytest.mark.parametrize(
    "title",
    [
        "Part 2: The Sea",
        "Tea: a survey: part 3",
        "Episode #5",
        "*Live* from Leafham",
        "[Part 2] The sea",
        "{2} The sea",
        '"Tea" and "milk"',
        "@home with Ola",
        "100%: a number",
        "It's tea: Ola's way",
        "- and then?",
        "no",
        "0501",
        "12:34",
        "Tea:",
    ],
)
def test_a_title_needs_no_quotes_whatever_signs_are_in_it(tmp_path: Path, title: str) -> None:
    path = write(tmp_path, f"---\ntitle: {title}\nlanguage: en\n---\n")
    assert read_front_matter(path) == FrontMatter(title, None, "en")


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ('"Tea: a survey" # a comment', "Tea: a survey"),
        ("'It''s tea'", "It's tea"),
        ("Tea # a comment", "Tea"),
        ("\tTea", "Tea"),
        ("Tea and\n  milk", "Tea and milk"),
        (">\n  Tea: a\n  survey", "Tea: a survey"),
        ('"Tea\\nand"', "Tea and"),
    ],
)
def test_what_is_yaml_is_read_as_yaml(tmp_path: Path, written: str, title: str) -> None:
    assert read_front_matter(write(tmp_path, f"---\ntitle: {written}\n---\n")).title == title


def test_guests_may_be_written_on_one_line_with_commas(tmp_path: Path) -> None:
    assert read_front_matter(write(tmp_path, "---\nguests: Ola Brewer, Jiří Čaj\n---\n")).guests == (
        "Ola Brewer",
        "Jiří Čaj",
    )


@pytest.mark.parametrize(
    ("written", "code"), [("en-US", "en"), ("English", "en"), ("Czech", "cs"), ("čeština", "cs"), ("CS", "cs"), ("cz", "cs")]
)
def test_a_language_is_understood_however_people_write_it(tmp_path: Path, written: str, code: str) -> None:
    assert read_front_matter(write(tmp_path, f"---\nlanguage: {written}\n---\n")).language == code


@pytest.mark.parametrize(
    ("written", "iso"),
    [
        ("2024-03-05", "2024-03-05"),
        ("2024-03-05T23:30:00+02:00", "2024-03-05"),
        ('"2024-03-05"', "2024-03-05"),
        ("2024-3-5", "2024-03-05"),
        ("2024/03/05", "2024-03-05"),
        ("Tue, 05 Mar 2024 23:30:00 +0200", "2024-03-05"),
    ],
)
def test_a_date_is_kept_as_the_day_that_is_written(tmp_path: Path, written: str, iso: str) -> None:
    assert read_front_matter(write(tmp_path, f"---\ndate: {written}\n---\n")).published_at == iso


@pytest.mark.parametrize("head", ["", "---\n---\n", "---\ntitle:\nguests:\n---\n", "---\n# nothing yet\n...\n"])
def test_missing_and_empty_front_matter_is_fine(tmp_path: Path, head: str) -> None:
    path = write(tmp_path, f"{head}The kettle is on.\n")
    assert read_front_matter(path) == FrontMatter()
    assert [row["text"] for row in read_notes(path, "ep03")] == ["The kettle is on."]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_byte_order_marks_and_foreign_line_ends_change_nothing(tmp_path: Path, bom: bytes, newline: str) -> None:
    content = "---\ntitle: Tea\nlanguage: en\n---\n## Leaves\n\nGreen and\nblack.\n".replace("\n", newline)
    path = write(tmp_path, bom + content.encode())
    assert read_front_matter(path).title == "Tea"
    assert [(row["heading"], row["text"]) for row in read_notes(path, "ep03")] == [("Leaves", "Green and black.")]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("---\ntitle: Tea\n\nThe kettle.\n", r"line 1 has no end: close it"),
        ('---\ndate: 2024-03-05\ntitle: "Tea\n---\n', r"line .*not valid YAML.*quotes"),
        ("---\ntitle: Tea\ndate: 3/4/2024\n---\n", r"line 3: '3/4/2024' is not an ISO date"),
        ("---\ndate: 2024-02-30\n---\n", r"line 2: '2024-02-30' is not an ISO date"),
        ("---\ntitle: Tea\nguests: [Ola\n---\n", r"line 3 .*not valid YAML"),
        ("---\ntitle: \x00\n---\n", r"line 1 .*not valid YAML"),
        ('---\ntitle: "\\UFFFFFFFF"\n---\n', r"line 1 .*not valid YAML"),
        ("---\nguests: " + "[" * 5000 + "\n---\n", r"line 1 .*not valid YAML"),
        ("---\n- tea\n- milk\n---\n", r"line 2 .*is not a `key: value` pair"),
        ("---\njust words\n---\n", r"line 2 .*is not a `key: value` pair"),
        ("---\ntitle: Tea\ndate: 5. 3. 2024\n---\n", r"line 3: '5. 3. 2024' is not an ISO date: .*2024-03-05"),
        ("---\nlanguage: Klingonese\n---\n", r"line 2: 'Klingonese' is not a known language: .*cs"),
        ("---\ntitle: [a, b]\n---\n", r"line 2: title is not a piece of text"),
        ('---\ntitle: "\\uD800"\n---\n', r"line 2: title is not a piece of text"),
        ("---\nguests: {name: Ola}\n---\n", r"line 2: guests is not a piece of text"),
    ],
)
def test_front_matter_that_cannot_be_read_is_told_with_its_file_and_line(tmp_path: Path, content: str, told: str) -> None:
    with pytest.raises(SourceError, match=rf"ep03\.md: .*{told}"):
        read_front_matter(write(tmp_path, content))


def test_notes_in_another_encoding_are_told_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"ep03\.md: line 2 is not UTF-8 text: save it as UTF-8"):
        read_notes(write(tmp_path, "Tea\nčaj".encode("cp1250")), "ep03")


# Sections


def test_each_heading_begins_a_section_and_text_before_the_first_has_no_heading(tmp_path: Path) -> None:
    assert sections(tmp_path, "Welcome.\n\n# Leaves\n\nGreen.\n\nBlack.\n\nWater\n-----\nSoft.\n") == [
        (None, None, "Welcome."),
        ("Leaves", None, "Green.\nBlack."),
        ("Water", None, "Soft."),
    ]


@pytest.mark.parametrize(
    ("written", "heading", "ms"),
    [
        ("[08:03] Slow leaves", "Slow leaves", 483_000),
        ("[08:03]Slow leaves", "Slow leaves", 483_000),
        ("Slow leaves (1:02:03)", "Slow leaves", 3_723_000),
        ("Slow leaves #t=08:03", "Slow leaves", 483_000),
        ("08:03 Slow leaves", "Slow leaves", 483_000),
        ("**08:03** – Slow leaves", "Slow leaves", 483_000),
        ("08:03 - 09:10 Slow leaves", "Slow leaves", 483_000),
        ("Slow leaves — 08:03", "Slow leaves", 483_000),
        ("[Slow leaves](ep03.mp3#t=08:03)", "Slow leaves", 483_000),
        ("[Slow leaves](https://example.org/ep03.mp3#t=483)", "Slow leaves", 483_000),
        ("[Slow leaves](https://example.org/watch?v=x&t=483)", "Slow leaves", None),
        ("[08:03]", None, 483_000),
        ("Slow leaves", "Slow leaves", None),
        ("The 10:30 to Leafham", "The 10:30 to Leafham", None),
        ("7:30 pm is tea time", "7:30 pm is tea time", None),
        ("Chapter 12:345", "Chapter 12:345", None),
    ],
)
def test_a_time_in_a_heading_is_the_start_of_its_section(
    tmp_path: Path, written: str, heading: str | None, ms: int | None
) -> None:
    assert sections(tmp_path, f"## {written}\n\nThey steep.\n") == [(heading, ms, "They steep.")]


@pytest.mark.parametrize(
    "written", ["[08:03] ", "(08:03) ", "08:03 ", "08:03: ", "#t=08:03 ", "- 08:03 ", "1. `08:03` ", "* [08:03](x#t=483) "]
)
def test_a_time_at_the_start_of_the_text_is_the_start_of_its_section(tmp_path: Path, written: str) -> None:
    assert sections(tmp_path, f"## Leaves\n\n{written}They steep.\n") == [("Leaves", 483_000, "They steep.")]


def test_each_timed_list_item_becomes_a_section_of_its_own(tmp_path: Path) -> None:
    markdown = (
        "## Topics\n\nToday:\n\n- 00:30 Kettles\n- [08:03] Leaves\n  - a remark\n- 1:02:03 Cups\n\n## Links\n\n- one\n"
    )
    assert sections(tmp_path, markdown) == [
        ("Topics", None, "Today:"),
        ("Topics", 30_000, "Kettles"),
        ("Topics", 483_000, "Leaves\na remark"),
        ("Topics", 3_723_000, "Cups"),
        ("Links", None, "one"),
    ]


def test_timed_lines_of_one_paragraph_and_rows_of_a_table_keep_their_times_too(tmp_path: Path) -> None:
    markdown = (
        "00:30 Kettles\n08:03 Leaves\n\n## Table\n\n| Time | Topic |\n|---|---|\n| 09:00 | Cups |\n| 09:30 | Spoons |\n"
    )
    assert sections(tmp_path, markdown) == [
        (None, 30_000, "Kettles"),
        (None, 483_000, "Leaves"),
        ("Table", None, "Time Topic"),
        ("Table", 540_000, "Cups"),
        ("Table", 570_000, "Spoons"),
    ]


def test_a_line_of_prose_that_wraps_before_a_time_stays_in_its_section(tmp_path: Path) -> None:
    assert sections(tmp_path, "The train left at\n10:30 sharp.\n") == [(None, None, "The train left at 10:30 sharp.")]


def test_an_empty_section_is_kept_only_if_its_heading_has_a_time(tmp_path: Path) -> None:
    assert sections(tmp_path, "# Empty\n\n# [08:03] Break\n\n# Leaves\n\nGreen.\n") == [
        ("Break", 483_000, ""),
        ("Leaves", None, "Green."),
    ]


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("A [long *read*](https://example.org) on **tea**.", "A long read on tea."),
        ("![A *blue* cup](cup.png) holds `200 ml`.", "A blue cup holds 200 ml."),
        ("- one\n- two", "one\ntwo"),
        ("> quoted\n> words", "quoted words"),
        ("```python\npour( cup )\n```", "pour( cup )"),
        ("~~cold~~ tea &amp; milk", "cold tea & milk"),
        ("Tea <b>and</b> milk<br>today", "Tea and milk today"),
        ("<div><!-- hidden --><p>Tea &amp; milk</p>\n<style>p {}</style></div>", "Tea & milk"),
        ("<script>\nsteep()\n", ""),
        (
            "Read more<https://example.org/a>today, or <https://example.org/b>.",
            "Read more https://example.org/a today, or https://example.org/b.",
        ),
        (
            "Our sponsor: [Leafham Kettles](https://example.org/?code=TEA), use code TEA.",
            "Our sponsor: Leafham Kettles, use code TEA.",
        ),
        ("<table><tr><td>Tea</td><td>hot</td></tr></table>", "Tea hot"),
        ("<ul><li>Tea<li>Milk</ul>", "Tea Milk"),
        ("**Tea", "**Tea"),
        ("one\n\n---\n\ntwo", "one\ntwo"),
    ],
)
def test_only_the_words_of_markdown_and_html_are_left(tmp_path: Path, markdown: str, text: str) -> None:
    assert "\n".join(section[2] for section in sections(tmp_path, markdown)) == text


def test_deeply_nested_lists_lose_nothing(tmp_path: Path) -> None:
    items = [f"item {depth}" for depth in range(30)]
    markdown = "\n".join("  " * depth + f"- {item}" for depth, item in enumerate(items))
    assert sections(tmp_path, markdown) == [(None, None, "\n".join(items))]


def test_headings_are_composed_so_that_equal_words_compare_equal(tmp_path: Path) -> None:
    assert sections(tmp_path, "# C\u030caj\n\nZeleny\u0301.\n") == [("Čaj", None, "Zelený.")]


def test_rows_fit_the_table_and_are_numbered_in_order(tmp_path: Path) -> None:
    rows = read_notes(write(tmp_path, "---\nlanguage: cs\n---\n# A\n\nx\n\n# B\n\ny\n"), "ep03")
    table = pa.Table.from_pylist(rows, schema=NOTES)
    assert table.column("section_idx").to_pylist() == [0, 1]
    assert set(table.column("episode_id").to_pylist()) == {"ep03"}
    assert set(table.column("language").to_pylist()) == {"cs"}


def test_without_a_language_in_front_matter_long_sections_are_detected_and_short_ones_follow_the_notes(
    tmp_path: Path,
) -> None:
    english = (
        "The kettle sings before it boils, and we wait for the water to settle before pouring it over the dark leaves. "
    )
    czech = "Konvice si zpívá, než se začne vařit, a my čekáme, až se voda uklidní, než ji nalijeme na tmavé lístky v hrnku."
    path = write(tmp_path, f"# One\n\n{english * 3}\n\n# Dvě\n\n{czech}\n\n# Three\n\nOk, bye.\n")
    assert [row["language"] for row in read_notes(path, "ep03")] == ["en", "cs", "en"]


words = st.text(alphabet="abcdefghij áčř", min_size=1, max_size=20).map(lambda text: " ".join(text.split())).filter(bool)
timed_items = st.lists(st.tuples(st.integers(0, MAX_MS // 1_000), words), min_size=1, max_size=6)
any_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@any_folder
@given(timed_items, st.sampled_from(["- {} {}", "* [{}] {}", "1. ({}) {}", "+ {} – {}"]))
def test_every_item_of_a_timed_list_keeps_its_time_and_words(
    tmp_path: Path, items: list[tuple[int, str]], form: str
) -> None:
    markdown = "## Topics\n\n" + "\n".join(form.format(format_timecode(seconds * 1_000), text) for seconds, text in items)
    assert sections(tmp_path, markdown) == [("Topics", seconds * 1_000, text) for seconds, text in items]


markdown_pieces = st.lists(
    st.sampled_from(
        [
            "---\n",
            "title: ",
            "# ",
            "- ",
            "[08:03]",
            "](",
            "<b>",
            "<!--",
            "&#0;",
            "```\n",
            "| a |\n",
            "|---|\n",
            "\n",
            "\r",
            "\t",
            '"\\u',
            "{",
            "*",
        ]
    )
    | st.text(max_size=8),
    max_size=25,
).map("".join)


@settings(any_folder, max_examples=300)
@given(markdown_pieces)
def test_any_text_is_either_rows_that_fit_the_table_or_a_source_error(tmp_path: Path, content: str) -> None:
    path = write(tmp_path, content.encode("utf-8", "replace"))
    try:
        rows = read_notes(path, "ep03")
    except SourceError:
        return
    assert pa.Table.from_pylist(rows, schema=NOTES).num_rows == len(rows)


@any_folder
@given(st.binary(max_size=60))
def test_any_bytes_are_either_front_matter_or_a_source_error(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path, b"---\n" + content + b"\n---\n")
    with contextlib.suppress(SourceError):
        assert isinstance(read_front_matter(path), FrontMatter)
