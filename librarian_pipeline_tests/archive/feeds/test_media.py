from dataclasses import replace

import pytest

from librarian_pipeline.archive.feeds.media import audio_suffix, choose_enclosure, is_web_page, rank_transcripts
from librarian_pipeline.archive.feeds.rss import Enclosure, Item, TranscriptTag
from librarian_pipeline_tests.archive.feeds.test_naming import item


@pytest.mark.parametrize(
    ("head", "url", "media_type", "expected"),
    [
        (b"ID3\x04", "a.m4a", "audio/mp4", ".mp3"),
        (b"\xff\xfb\x90\x00", "a", "text/html", ".mp3"),
        (b"\xff\xf1\x50\x80", "a.mp3", "audio/mpeg", ".aac"),
        (b"OggS" + bytes(24) + b"OpusHead", "a.ogg", "audio/mpeg", ".opus"),
        (b"OggS" + bytes(24) + b"\x01vorbis", "a", "", ".ogg"),
        (b"OggS" + bytes(24) + b"\x01vorbis", "a.oga", "", ".oga"),
        (b"fLaC", "a.wav", "", ".flac"),
        (b"RIFF1234WAVE", "a", "", ".wav"),
        (b"FORM1234AIFF", "a", "", ".aiff"),
        (b"\0\0\0\x20ftypM4A ", "a", "", ".m4a"),
        (b"\0\0\0\x20ftypisom", "a.m4a", "", ".m4a"),
        (b"\0\0\0\x20ftypisom", "a", "audio/x-m4a", ".m4a"),
        (b"\0\0\0\x20ftypisom", "a.mp3", "audio/mpeg", ".mp4"),
        (b"\x1aE\xdf\xa3", "a.mka", "", ".mka"),
        (b"\x1aE\xdf\xa3", "a", "", ".webm"),
        (b"0&\xb2u\x8ef\xcf\x11", "a", "", ".wma"),
        (b"\0\0\0\0", "https://h/a.MP3?x=1#t=2", "", ".mp3"),
        (b"\0\0\0\0", "a.php", "audio/mpeg", ".mp3"),
        (b"\0\0\0\0", "a.php", "application/octet-stream", None),
        ("<".encode("utf-16"), "a", "", None),
        (b"", "http://[bad", "", None),
    ],
)
def test_content_decides_the_suffix_then_the_address_then_the_type(
    head: bytes, url: str, media_type: str, expected: str | None
) -> None:
    assert audio_suffix(head, url, media_type) == expected


@pytest.mark.parametrize("head", [b"<!DOCTYPE html>", b"\xef\xbb\xbf \n<HTML>", b"<?xml version='1.0'?>", b"<head>"])
def test_a_web_page_is_known_by_its_beginning(head: bytes) -> None:
    assert is_web_page(head)
    assert not is_web_page(b"ID3" + head)


def enclosures(*pairs: tuple[str, str]) -> Item:
    return replace(item(), enclosures=tuple(Enclosure(url, media_type, None) for url, media_type in pairs))


@pytest.mark.parametrize(
    ("pairs", "chosen"),
    [
        ([("a.mp4", "video/mp4"), ("a.mp3", "audio/mpeg")], "a.mp3"),
        ([("a.mp4", "video/mp4"), ("a.mp3", "text/plain")], "a.mp3"),
        ([("a.pdf", "application/pdf"), ("a.mp4", "video/mp4")], "a.mp4"),
        ([("get?id=3", ""), ("a.jpg", "image/jpeg")], "get?id=3"),
        ([("1.mp3", "audio/mpeg"), ("2.mp3", "audio/mpeg")], "1.mp3"),
        ([("a.pdf", "application/pdf"), ("a.jpg", "image/jpeg")], None),
        ([], None),
    ],
)
def test_audio_goes_before_video_and_other_files_are_not_taken(pairs: list[tuple[str, str]], chosen: str | None) -> None:
    enclosure = choose_enclosure(enclosures(*pairs))
    assert (enclosure.url if enclosure else None) == chosen


def ranked(*tags: tuple[str, str, str | None, str], language: str | None = "cs-CZ") -> list[str]:
    transcripts = tuple(TranscriptTag(*tag) for tag in tags)
    return [tag.url for tag in rank_transcripts(replace(item(), language=language, transcripts=transcripts))]


def test_json_goes_before_vtt_and_vtt_before_srt() -> None:
    tags = [
        ("a.srt", "application/x-subrip", None, ""),
        ("a.vtt", "text/vtt", None, ""),
        ("a", "application/json", None, ""),
    ]
    assert ranked(*tags) == ["a", "a.vtt", "a.srt"]


def test_the_episodes_language_goes_before_the_format_and_captions_come_after_transcripts() -> None:
    tags = [
        ("en.json", "application/json", "en", ""),
        ("captions.json", "application/json", "cs", "captions"),
        ("unsaid.json", "application/json", None, ""),
        ("cs.srt", "application/srt", "Czech", ""),
    ]
    assert ranked(*tags) == ["cs.srt", "captions.json", "unsaid.json", "en.json"]


def test_transcripts_without_times_are_not_taken_unless_their_name_says_otherwise() -> None:
    tags = [("a.html", "text/html", None, ""), ("a.txt", "text/plain", None, ""), ("b.srt", "text/plain", None, "")]
    assert ranked(*tags) == ["b.srt"]


def test_a_language_that_nobody_knows_is_just_another_language() -> None:
    assert ranked(("a.vtt", "", "klingon!", ""), ("b.vtt", "", "cs", "")) == ["b.vtt", "a.vtt"]
