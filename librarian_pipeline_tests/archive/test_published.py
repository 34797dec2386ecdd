import html
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from librarian_pipeline.archive.published import PublishedTranscript, read_published
from librarian_pipeline.archive.published.captions import MIN_SPEAKER_CUES
from librarian_pipeline.errors import SourceError
from librarian_pipeline.storage.schemas import TRANSCRIPTS


def read(folder: Path, content: str | bytes, name: str = "ep07.vtt", language: str | None = "en") -> PublishedTranscript:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return read_published(path, "ep07", language)


def cues(transcript: PublishedTranscript) -> list[tuple[Any, ...]]:
    return [(row["start_ms"], row["end_ms"], row["speaker"], row["text"]) for row in transcript.rows]


def flags(transcript: PublishedTranscript) -> list[list[str]]:
    return [row["flags"] for row in transcript.rows]


def vtt(*found: tuple[str, str, str]) -> str:
    return "WEBVTT\n\n" + "\n\n".join(f"{start} --> {end}\n{text}" for start, end, text in found)


def srt(*texts: str) -> str:
    """A cue for every other second, from the first on."""
    return "\n".join(
        f"{i + 1}\n00:00:{2 * i + 1:02},000 --> 00:00:{2 * i + 2:02},000\n{text}\n" for i, text in enumerate(texts)
    )


# WebVTT


def test_webvtt_gives_times_speakers_and_plain_text(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        "WEBVTT - a tea show\nKind: captions\n\nNOTE\ntwo\nlines\n\nSTYLE\n::cue { color: teal }\n\nREGION\nid:a\n"
        "\nintro\n00:01.000 --> 00:04.500 align:start\n<v.loud Ola Brewer>Tea &amp; <i>milk</i>,\nplease.</v>\n\n"
        "2\n01:02:03.000 --> 01:02:05.250\n<c.blue>No</c> <00:01:02.500>names.\n",
    )
    assert cues(transcript) == [
        (1_000, 4_500, "Ola Brewer", "Tea & milk, please."),
        (3_723_000, 3_725_250, None, "No names."),
    ]
    assert (transcript.format, transcript.n_rejected) == ("vtt", 0)


def test_each_voice_of_a_webvtt_cue_keeps_its_own_words(tmp_path: Path) -> None:
    transcript = read(tmp_path, "WEBVTT\n\n00:01.000 --> 00:04.000\n<v Ola>Milk?</v>\n<v Jan &amp; Co>No &lt;i&gt; milk.\n")
    assert cues(transcript) == [(1_000, 4_000, "Ola", "Milk?"), (1_000, 4_000, "Jan & Co", "No <i> milk.")]


def test_a_cue_that_is_commented_out_is_skipped(tmp_path: Path) -> None:
    transcript = read(tmp_path, "WEBVTT\n\nNOTE\n00:01.000 --> 00:02.000\nOld.\n\n00:03.000 --> 00:04.000\nNew.\n")
    assert cues(transcript) == [(3_000, 4_000, None, "New.")]


def test_webvtt_with_comma_decimals_and_no_blank_lines_is_read(tmp_path: Path) -> None:
    transcript = read(tmp_path, "WEBVTT\n00:01,000 --> 00:02,000\nOne.\n2\n00:00:02,000-->00:00:03,000\nTwo.")
    assert cues(transcript) == [(1_000, 2_000, None, "One."), (2_000, 3_000, None, "Two.")]


# SRT


def test_srt_gives_times_speakers_and_plain_text(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        "1\n00:00:01,000 --> 00:00:04,500\nOla Brewer: Tea,\n<i>please</i>.\n\n"
        "2\n00:00:05,000 --> 00:00:06,000\n{\\an8}Ola Brewer: It is &amp; hot.\n",
        name="ep07.srt",
    )
    assert cues(transcript) == [
        (1_000, 4_500, "Ola Brewer", "Tea, please."),
        (5_000, 6_000, "Ola Brewer", "It is & hot."),
    ]
    assert (transcript.format, transcript.n_rejected) == ("srt", 0)


def test_srt_keeps_what_follows_a_blank_line_inside_a_cue_and_needs_no_index(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        "00:00:01,000 --> 00:00:02,000\nOne.\n\nStill one.\n\n00:00:03.000 --> 00:00:04.000\n42\n\n"
        "00:00:05,000 --> 00:00:06,000\nThree.\n7\n00:00:07 --> 00:00:08\nFour --> five.",
    )
    assert [row["text"] for row in transcript.rows] == ["One. Still one.", "42", "Three.", "Four --> five."]


@pytest.mark.parametrize(
    ("text", "speaker", "spoken"),
    [
        ("SPEAKER_01: Yes.", "SPEAKER_01", "Yes."),
        ("Speaker 2: Yes.", "Speaker 2", "Yes."),
        ("Řehoř Ó Dálaigh-Malý Ml.: Yes.", "Řehoř Ó Dálaigh-Malý Ml.", "Yes."),
        ("The thing is: no.", None, "The thing is: no."),
        ("One Two Three Four Five: no.", None, "One Two Three Four Five: no."),
        ("At 10:30 we left.", None, "At 10:30 we left."),
        ("Https://example.org", None, "Https://example.org"),
        ("Then he said Ola: go.", None, "Then he said Ola: go."),
        ("Ola:", None, "Ola:"),
    ],
)
def test_an_srt_speaker_is_at_most_four_capitalised_words_before_a_colon(
    tmp_path: Path, text: str, speaker: str | None, spoken: str
) -> None:
    assert cues(read(tmp_path, srt(text, text))) == [(1_000, 2_000, speaker, spoken), (3_000, 4_000, speaker, spoken)]


@pytest.mark.parametrize("text", ["Part 2: the sea", "Warning: do not touch", "Ola: Yes."])
def test_what_stands_before_a_colon_only_once_in_an_srt_file_is_speech(tmp_path: Path, text: str) -> None:
    transcript = read(tmp_path, srt("Jan: Hello.", text, "Jan: Good bye."))
    assert [(row["speaker"], row["text"]) for row in transcript.rows] == [
        ("Jan", "Hello."),
        (None, text),
        ("Jan", "Good bye."),
    ]


# Podcasting 2.0 JSON


def test_json_gives_times_speakers_and_text_and_a_missing_end_is_the_next_start(tmp_path: Path) -> None:
    segments = [
        {"speaker": "Ola", "startTime": 0.5, "endTime": 2.25, "body": " Tea,\nplease. "},
        {"speaker": "", "startTime": 3, "body": "Here."},
        {"startTime": 5.0, "body": "It is quite hot, so take care with it."},
    ]
    transcript = read(tmp_path, json.dumps({"version": "1.0.0", "segments": segments}), name="ep07.json")
    assert cues(transcript) == [
        (500, 2_250, "Ola", "Tea, please."),
        (3_000, 5_000, None, "Here."),
        (5_000, 7_533, None, "It is quite hot, so take care with it."),
    ]
    assert (transcript.format, transcript.n_rejected) == ("json", 0)


@pytest.mark.parametrize(
    "bad",
    [
        {"startTime": "soon", "body": "x"},
        {"startTime": True, "body": "x"},
        {"startTime": -1, "body": "x"},
        {"startTime": float("nan"), "body": "x"},
        {"startTime": 1e300, "body": "x"},
        {"startTime": "nan", "body": "x"},
        {"startTime": 5, "body": None},
        {"body": "x"},
        "x",
    ],
)
def test_a_json_segment_that_makes_no_sense_is_counted_and_the_others_are_read(tmp_path: Path, bad: object) -> None:
    good = {"startTime": 1, "endTime": 2, "body": "Tea."}
    transcript = read(tmp_path, json.dumps({"segments": [bad, good]}))
    assert (cues(transcript), transcript.n_rejected) == ([(1_000, 2_000, None, "Tea.")], 1)


@pytest.mark.parametrize("end", [4, "later", -1])
def test_a_json_end_that_makes_no_sense_costs_only_the_end(tmp_path: Path, end: object) -> None:
    segments = [{"startTime": 5, "endTime": end, "body": "Tea."}, {"startTime": 7, "endTime": 8, "body": "Milk."}]
    transcript = read(tmp_path, json.dumps({"segments": segments}))
    assert cues(transcript) == [(5_000, 7_000, None, "Tea."), (7_000, 8_000, None, "Milk.")]
    assert (flags(transcript), transcript.n_rejected) == ([["bad_end"], []], 0)


def test_json_times_may_be_written_as_text(tmp_path: Path) -> None:
    assert cues(read(tmp_path, '{"segments": [{"startTime": "1.5", "endTime": "2", "body": "Tea."}]}')) == [
        (1_500, 2_000, None, "Tea.")
    ]


@pytest.mark.parametrize(
    ("named", "given", "expected"), [("cs-CZ", None, "cs"), ("cs", "en", "en"), ("?", None, "en"), (None, None, "en")]
)
def test_the_language_is_the_given_one_else_the_one_in_the_file_else_detected(
    tmp_path: Path, named: str | None, given: str | None, expected: str
) -> None:
    document = {
        "language": named,
        "segments": [{"startTime": 1, "body": "We waited for the water to boil and poured the tea."}],
    }
    assert read(tmp_path, json.dumps(document), language=given).rows[0]["language"] == expected


# All formats


def test_the_content_decides_the_format_and_not_the_suffix(tmp_path: Path) -> None:
    assert read(tmp_path, "1\n00:00:01,000 --> 00:00:02,000\nTea.\n", name="ep07.json").format == "srt"
    assert read(tmp_path, '{"segments": [{"startTime": 1, "body": "Tea."}]}', name="ep07.vtt").format == "json"
    assert read(tmp_path, "WEBVTT\n\n00:01.000 --> 00:02.000\nTea.\n", name="ep07.srt").format == "vtt"


def test_cues_are_sorted_by_start_and_numbered_in_that_order(tmp_path: Path) -> None:
    transcript = read(tmp_path, "WEBVTT\n\n00:05.000 --> 00:06.000\nLate.\n\n00:01.000 --> 00:02.000\nEarly.\n")
    assert [(row["segment_idx"], row["text"]) for row in transcript.rows] == [(0, "Early."), (1, "Late.")]


def test_cues_without_text_or_with_times_that_make_no_sense_are_left_out_and_counted(tmp_path: Path) -> None:
    transcript = read(
        tmp_path,
        "WEBVTT\n\n00:01.000 --> 00:02.000\n\n00:02.000 --> 00:03.000\n<i> </i>\n\n00:61.000 --> 00:62.000\nNo second.\n"
        "\n00:10.000 --> 00:11.000\nGood.\n",
    )
    assert cues(transcript) == [(10_000, 11_000, None, "Good.")]
    assert transcript.counts == {"read": 4, "kept": 1, "rejected_no_text": 2, "rejected_bad_time": 1}
    assert transcript.n_rejected == 3


def test_a_cue_without_a_duration_lasts_until_the_next_one(tmp_path: Path) -> None:
    transcript = read(tmp_path, "WEBVTT\n\n00:01.000 --> 00:01.000\nOne.\n\n00:04.000 --> 00:04.000\nTwo.\n")
    assert cues(transcript) == [(1_000, 4_000, None, "One."), (4_000, 5_000, None, "Two.")]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", r"no cue with a time such as `00:00:01,000"),
        ("WEBVTT\n", r"no cue with a time such as `00:01\.000"),
        ("<!doctype html>\n<!-- 1 --> <p>Not found</p>", r"no cue with a time"),
        ("WEBVTT\n\n00:01.000 --> 00:02.000\n\n", r"no cue with a time .* and a text"),
        ('{"segments": []}', r'no entry of "segments" with a "startTime"'),
        ('{"segments": 7}', r'no entry of "segments"'),
        ('{"segments": [', r"is not valid JSON"),
        ('{"a": ' + "[" * 100_000, r"is not valid JSON"),
        ('{"a": ' + "9" * 5_000 + "}", r"is not valid JSON"),
    ],
)
def test_a_file_without_any_usable_cue_is_told_with_what_was_expected(
    tmp_path: Path, content: str | bytes, told: str
) -> None:
    with pytest.raises(SourceError, match=rf"ep07\.vtt:? .*{told}|ep07\.vtt {told}"):
        read(tmp_path, content)


def test_old_windows_files_keep_their_quotation_marks_and_umlauts(tmp_path: Path) -> None:
    content = "1\n00:00:01,000 --> 00:00:02,000\nIt’s “Käse” – yes.\n".encode("cp1252")
    assert read(tmp_path, content).rows[0]["text"] == "It’s “Käse” – yes."


def test_rows_fit_the_table_and_claim_nothing_that_only_recognition_can_know(tmp_path: Path) -> None:
    transcript = read(
        tmp_path, '{"segments": [{"startTime": 1, "endTime": 2, "body": "Half a pair: \\ud83d", "speaker": "Ola"}]}'
    )
    (row,) = pa.Table.from_pylist(transcript.rows, schema=TRANSCRIPTS).to_pylist()
    assert (row["episode_id"], row["source"], row["flags"], row["excluded"]) == ("ep07", "json", [], False)
    unknown = ("avg_logprob", "no_speech_prob", "compression_ratio", "window_id", "words")
    assert [row[column] for column in unknown] == [None] * 5
    assert row["text"] == "Half a pair: \ufffd"


HOUR = 3_600_000
# Signs that Latin-1 has too, so that every encoding can hold every text; `-->`, tags and entities are made by escaping.
letters = st.sampled_from("abc XYZ 0.5 ?!,'<>&-éüñ½")
spoken_texts = (
    st.text(letters, min_size=1, max_size=30)
    .map(lambda text: " ".join(text.split()))
    .filter(
        # at the start of a line, a sign of another speaker, which is no text
        lambda text: text and not any(word.startswith(("-", ">")) for word in text.split())
    )
)
names = st.sampled_from([None, "Ola", "Ola Brewer", "Jürgen O'Tea"])
generated_cues = st.lists(
    st.tuples(st.integers(0, 150 * HOUR), st.integers(1, 20_000), names, spoken_texts),
    min_size=1,
    max_size=8,
    unique_by=lambda cue: cue[0],
).map(
    # The start in the text keeps cues from being taken for a loop, rolling captions, or single words.
    lambda found: sorted((start, start + length, name, f"{text} {start}") for start, length, name, text in found)
)
encodings = st.sampled_from(["utf-8", "utf-8-sig", "latin-1"])
newlines = st.sampled_from(["\n", "\r\n", "\r"])
any_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def stamp(ms: int, mark: str, *, hours: bool = True) -> str:
    seconds, ms = divmod(ms, 1_000)
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60 and not hours:
        return f"{minutes:02}:{seconds:02}{mark}{ms:03}"
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}{mark}{ms:03}"


@any_folder
@given(generated_cues, encodings, newlines, st.sampled_from(".,"), st.booleans(), st.booleans())
def test_generated_webvtt_reads_back_as_it_was(
    tmp_path: Path, expected: list[Any], encoding: str, newline: str, mark: str, hours: bool, identifiers: bool
) -> None:
    blocks = ["WEBVTT"]
    for number, (start, end, name, text) in enumerate(expected, start=1):
        voice = f"<v {html.escape(name, quote=False)}>" if name else ""
        head = f"cue {number}\n" if identifiers else ""
        times = f"{stamp(start, mark, hours=hours)} --> {stamp(end, mark, hours=hours)}"
        blocks.append(f"{head}{times} line:0\n{voice}{html.escape(text, quote=False)}")
    content = "\n\n".join(blocks).replace("\n", newline).encode(encoding)
    transcript = read(tmp_path, content)
    assert cues(transcript) == expected
    assert (transcript.format, transcript.n_rejected) == ("vtt", 0)


@any_folder
@given(generated_cues, encodings, newlines, st.booleans(), st.sampled_from([" ", "\n", "\n\n"]))
def test_generated_srt_reads_back_as_it_was(
    tmp_path: Path, expected: list[Any], encoding: str, newline: str, indexed: bool, space: str
) -> None:
    blocks = []
    for number, (start, end, name, text) in enumerate(expected, start=1):
        head = f"{number}\n" if indexed else ""
        body = f"{name}: {html.escape(text)}" if name else html.escape(text)
        blocks.append(f"{head}{stamp(start, ',')} --> {stamp(end, ',')}\n{body.replace(' ', space)}")
    content = "\n\n".join(blocks).replace("\n", newline).encode(encoding)
    transcript = read(tmp_path, content)
    said = Counter(name for _, _, name, _ in expected)
    assert cues(transcript) == [
        (start, end, None, f"{name}: {text}") if name and said[name] < MIN_SPEAKER_CUES else (start, end, name, text)
        for start, end, name, text in expected
    ]
    assert (transcript.format, transcript.n_rejected) == ("srt", 0)


@any_folder
@given(generated_cues, st.sampled_from(["utf-8", "utf-8-sig"]), st.booleans())
def test_generated_json_reads_back_as_it_was(tmp_path: Path, expected: list[Any], encoding: str, escaped: bool) -> None:
    segments = [
        {"startTime": start / 1_000, "endTime": end / 1_000, "speaker": name, "body": text}
        for start, end, name, text in expected
    ]
    transcript = read(tmp_path, json.dumps({"segments": segments}, ensure_ascii=escaped).encode(encoding))
    assert cues(transcript) == expected
    assert (transcript.format, transcript.n_rejected) == ("json", 0)


pieces = st.lists(
    st.sampled_from(
        [
            b"WEBVTT",
            b"\n",
            b"\r",
            b"00:01.000",
            b" --> ",
            b"00:02,000",
            b"<v A>",
            b"NOTE",
            b"7",
            b"\xff",
            b"&#55296;",
            b"Ola: ",
        ]
    )
    | st.binary(max_size=6),
    max_size=25,
).map(b"".join)


@settings(any_folder, max_examples=200)
@given(pieces)
def test_any_bytes_are_either_rows_with_sensible_times_or_a_source_error(tmp_path: Path, content: bytes) -> None:
    try:
        transcript = read(tmp_path, content)
    except SourceError:
        return
    rows = pa.Table.from_pylist(transcript.rows, schema=TRANSCRIPTS).to_pylist()
    assert all(row["text"] and 0 <= row["start_ms"] < row["end_ms"] for row in rows)
