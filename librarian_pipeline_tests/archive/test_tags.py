import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from mutagen.flac import FLAC
from mutagen.id3 import CHAP, CTOC, ID3, TDRC, TDRL, TIT2, TLAN
from mutagen.mp4 import MP4
from mutagen.oggopus import OggOpus
from mutagen.wave import WAVE

from librarian_pipeline.archive.tags import AudioTags, Chapter, chapter_sections, read_tags
from librarian_pipeline.storage.schemas import NOTES

RATE = 48_000
CODECS = {".mp3": "mp3", ".m4a": "aac", ".opus": "libopus", ".ogg": "libopus", ".flac": "flac", ".wav": "pcm_s16le"}
CHAPTERS = (Chapter(0, "The kettle"), Chapter(3_723_500, "Čaj & milk"))
TAGS = AudioTags("Slow tea", "2024-03-05", "cs", CHAPTERS)


def tone(path: Path, chapters: list[Any] | None = None) -> Path:
    """One second of a tone."""
    samples = (np.sin(np.arange(RATE) / 20) * 8_000).astype(np.int16).reshape(1, -1)
    with av.open(str(path), "w", format="ipod" if path.suffix == ".m4a" else None) as container:
        stream = container.add_stream(CODECS[path.suffix], rate=RATE, layout="mono")
        if chapters:
            container.set_chapters(chapters)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        frame.sample_rate = RATE
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    return path


def chapter_frame(name: str, start_ms: int, title: str | None) -> CHAP:
    titles = [TIT2(encoding=3, text=[title])] if title is not None else []
    return CHAP(
        element_id=name,
        start_time=start_ms,
        end_time=start_ms,
        start_offset=0xFFFFFFFF,
        end_offset=0xFFFFFFFF,
        sub_frames=titles,
    )


def id3(**changes: Any) -> ID3:
    tags = ID3()
    tags.add(TIT2(encoding=3, text=["Slow tea"]))
    tags.add(TDRC(encoding=3, text=[changes.get("date", "2024-03-05T10:00:00")]))
    tags.add(TLAN(encoding=3, text=[changes.get("language", "cze")]))
    for index, chapter in enumerate(reversed(CHAPTERS)):
        tags.add(chapter_frame(f"c{index}", chapter.start_ms, chapter.title))
    return tags


def mp3(path: Path) -> None:
    id3().save(tone(path))


def mp3_of_version_2_3(path: Path) -> None:
    id3().save(tone(path), v2_version=3)


def wav(path: Path) -> None:
    file = WAVE(tone(path))
    file.add_tags()
    file.tags.update(id3())
    file.save()


def vorbis_comments(kind: Callable[[Path], Any]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        file = kind(tone(path))
        file["TITLE"], file["date"], file["LANGUAGE"] = "Slow tea", "2024-03-05", "cs"
        file["CHAPTER002"], file["CHAPTER002NAME"] = "01:02:03.500", "Čaj & milk"
        file["CHAPTER001"], file["CHAPTER001NAME"] = "00:00:00.000", "The kettle"
        file["CHAPTER003"], file["CHAPTER003NAME"] = "soon", "Never"
        file.save()

    return write


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "mp3": (".mp3", mp3),
    "mp3, ID3v2.3": (".mp3", mp3_of_version_2_3),
    "wav": (".wav", wav),
    "opus": (".opus", vorbis_comments(OggOpus)),
    "ogg": (".ogg", vorbis_comments(OggOpus)),
    "flac": (".flac", vorbis_comments(FLAC)),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_title_date_language_and_chapters_are_read(tmp_path: Path, kind: str) -> None:
    suffix, write = WRITERS[kind]
    write(tmp_path / f"Ep: 5{suffix}")
    assert read_tags(tmp_path / f"Ep: 5{suffix}") == TAGS


def m4a(path: Path) -> Path:
    base = {"time_base": Fraction(1, 1_000)}
    chapters = [
        {**base, "id": i, "start": chapter.start_ms, "end": chapter.start_ms + 400, "metadata": {"title": chapter.title}}
        for i, chapter in enumerate(CHAPTERS)
    ]
    tone(path, chapters)
    file = MP4(path)
    file["\xa9nam"], file["\xa9day"] = ["Slow tea"], ["2024-03-05T10:00:00Z"]
    file.save()
    return path


def test_mp4_tags_and_chapters_are_read(tmp_path: Path) -> None:
    assert read_tags(m4a(tmp_path / "ep.m4a")) == AudioTags("Slow tea", "2024-03-05", None, CHAPTERS)


def test_id3_of_version_2_2_is_read(tmp_path: Path) -> None:
    frame = b"TT2\x00\x00\x09\x00Slow tea"
    (tmp_path / "ep.mp3").write_bytes(b"ID3\x02\x00\x00\x00\x00\x00" + bytes([len(frame)]) + frame)
    assert read_tags(tmp_path / "ep.mp3").title == "Slow tea"


def test_the_table_of_contents_decides_which_chapters_count(tmp_path: Path) -> None:
    tags = id3()
    tags.add(chapter_frame("hidden", 5_000, "Not listed"))
    tags.add(CTOC(element_id="toc", flags=3, child_element_ids=["c0", "c1"], sub_frames=[]))
    tags.save(tone(tmp_path / "ep.mp3"))
    assert read_tags(tmp_path / "ep.mp3").chapters == CHAPTERS


def test_a_chapter_without_a_title_keeps_its_start_and_one_without_a_time_is_none(tmp_path: Path) -> None:
    tags = ID3()
    tags.add(chapter_frame("a", 7_000, None))
    tags.add(chapter_frame("b", 0xFFFFFFFF, "Somewhere"))
    tags.save(tone(tmp_path / "ep.mp3"))
    assert read_tags(tmp_path / "ep.mp3").chapters == (Chapter(7_000, ""),)


def test_the_release_date_wins_and_a_bare_year_is_no_date(tmp_path: Path) -> None:
    tags = id3(date="2019")
    tags.save(tone(tmp_path / "ep.mp3"))
    assert read_tags(tmp_path / "ep.mp3").published_at is None
    tags.add(TDRL(encoding=3, text=["2024-03-06"]))
    tags.save(tmp_path / "ep.mp3")
    assert read_tags(tmp_path / "ep.mp3").published_at == "2024-03-06"


@pytest.mark.parametrize("language", ["XXX", "und", "\x00"])
def test_a_language_that_is_none_is_left_out(tmp_path: Path, language: str) -> None:
    id3(language=language).save(tone(tmp_path / "ep.mp3"))
    assert read_tags(tmp_path / "ep.mp3").language is None


def test_text_is_one_line_without_control_characters_and_only_the_first_of_several_values(tmp_path: Path) -> None:
    tags = ID3()
    tags.add(TIT2(encoding=3, text=["Slow\x07 tea\nand mi\u0301lk", "Another"]))
    tags.save(tone(tmp_path / "ep.mp3"))
    assert read_tags(tmp_path / "ep.mp3").title == "Slow tea and mílk"


def test_the_tags_of_an_mp3_whose_audio_is_damaged_are_read(tmp_path: Path) -> None:
    id3().save(tone(tmp_path / "ep.mp3"))
    content = (tmp_path / "ep.mp3").read_bytes()
    (tmp_path / "ep.mp3").write_bytes(content[: content.rindex(b"Info")] + b"junk" * 500)
    assert read_tags(tmp_path / "ep.mp3") == TAGS


@pytest.mark.parametrize(
    "content", [b"", b"ID3", b"<html>not found</html>", b"ID3\x04\x00\x00\x00\x00\x7f\x7fTIT2", b"OggS", b"\0" * 99]
)
def test_a_file_without_tags_that_make_sense_has_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ep.mp3").write_bytes(content)
    assert read_tags(tmp_path / "ep.mp3") == AudioTags()


def test_a_file_that_is_not_there_has_no_tags(tmp_path: Path) -> None:
    assert read_tags(tmp_path / "ep.mp3") == AudioTags()


@pytest.mark.parametrize("kind", [*WRITERS, "m4a"])
def test_damage_anywhere_in_the_tags_is_no_crash(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "ep.m4a"
    if kind == "m4a":
        m4a(path)
    else:
        suffix, write = WRITERS[kind]
        path = tmp_path / f"ep{suffix}"
        write(path)
    content, chance = path.read_bytes(), random.Random(5)
    for _ in range(60):
        damaged = bytearray(content[: chance.randrange(len(content))] if chance.random() < 0.3 else content)
        for _ in range(chance.randrange(1, 20)):
            if damaged:
                damaged[chance.randrange(min(len(damaged), 2_000))] = chance.randrange(256)
        path.write_bytes(damaged)
        assert isinstance(read_tags(path), AudioTags)


def test_chapters_are_sections_of_notes_without_text(tmp_path: Path) -> None:
    id3().save(tone(tmp_path / "ep.mp3"))
    rows = chapter_sections(tmp_path / "ep.mp3", "ep03")
    assert [(row["section_idx"], row["heading"], row["start_ms"], row["text"], row["language"]) for row in rows] == [
        (0, "The kettle", 0, "", "cs"),
        (1, "Čaj & milk", 3_723_500, "", "cs"),
    ]
    assert list(rows[0]) == NOTES.names


def test_a_file_without_chapters_gives_no_sections(tmp_path: Path) -> None:
    assert chapter_sections(tone(tmp_path / "ep.flac"), "ep03") == []
