from pathlib import Path

import numpy as np
import pytest

from librarian_pipeline.errors import LibrarianError, SourceError
from librarian_pipeline.speech.decode import header_duration_ms
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ
from librarian_pipeline_tests.speech.sounds import decoded, mp3, write_picture, write_tone

FORMATS = {
    "8 kHz mono wav": ("wav", "pcm_s16le", 8_000, 1, "pcm_s16le"),
    "96 kHz stereo wav": ("wav", "pcm_s16le", 96_000, 2, "pcm_s16le"),
    "48 kHz stereo opus": ("ogg", "libopus", 48_000, 2, "opus"),
    "11.025 kHz mono mp3": ("mp3", "libmp3lame", 11_025, 1, "mp3"),
    "44.1 kHz stereo mp3": ("mp3", "libmp3lame", 44_100, 2, "mp3"),
    "48 kHz stereo m4a": ("mp4", "aac", 48_000, 2, "aac"),
    "44.1 kHz mono flac": ("flac", "flac", 44_100, 1, "flac"),
}


def loudest_hz(samples: np.ndarray) -> float:
    return float(np.abs(np.fft.rfft(samples)).argmax() * SAMPLE_RATE_HZ / samples.size)


@pytest.mark.parametrize(("container", "codec", "rate_hz", "channels", "codec_name"), FORMATS.values(), ids=FORMATS)
def test_every_usual_format_becomes_the_same_16_khz_mono_sound(tmp_path, container, codec, rate_hz, channels, codec_name):
    audio = decoded(write_tone(tmp_path / "sound", container, codec, rate_hz, channels, 5))
    assert (audio.status, audio.status_reason, audio.bad_packets) == ("ok", None, 0)
    assert (audio.codec, audio.sample_rate_hz, audio.channels) == (codec_name, rate_hz, channels)
    assert audio.samples.dtype == np.int16
    assert audio.samples.ndim == 1
    assert audio.samples.size == pytest.approx(5 * SAMPLE_RATE_HZ, rel=0.02)
    assert loudest_hz(audio.samples) == pytest.approx(440, abs=1)
    assert np.abs(audio.samples / 32_768).max() == pytest.approx(0.3, abs=0.03)
    assert audio.duration_decoded_ms == round(audio.samples.size / 16)
    assert audio.duration_header_ms == pytest.approx(5_000, abs=100)


def test_not_a_sample_is_lost_at_the_end(tmp_path):
    audio = decoded(write_tone(tmp_path / "sound.wav", "wav", "pcm_s16le", 8_000, 1, 5))
    assert audio.samples.size == 5 * SAMPLE_RATE_HZ


NAMES = ["Ep: 5.mp3", "díl č. 7 – žluťoučký kůň.mp3", "di\u0301l.mp3", "http:x.mp3", "-i x.mp3", " .mp3"]


@pytest.mark.parametrize("name", NAMES)
def test_names_with_colons_accents_and_leading_dashes_are_only_names(tmp_path, name):
    assert decoded(mp3(tmp_path / name, seconds=3)).status == "ok"


def test_tags_in_another_encoding_are_no_obstacle(tmp_path):
    path = write_tone(tmp_path / "a.flac", "flac", "flac", 16_000, 1, 3, title="XXXX")
    path.write_bytes(path.read_bytes().replace(b"XXXX", b"\xe9\xe8\xec\xff"))
    assert decoded(path).status == "ok"


def test_a_tag_at_the_end_of_an_mp3_is_not_damage(tmp_path):
    path = mp3(tmp_path / "a.mp3", seconds=3)
    path.write_bytes(path.read_bytes() + b"TAG" + bytes(125))
    assert decoded(path).status == "ok"


def test_damage_in_the_middle_costs_only_the_damaged_packets(tmp_path):
    path = mp3(tmp_path / "a.mp3")
    whole = path.read_bytes()
    middle = len(whole) // 2
    noise = np.random.default_rng(1).bytes(2_000)
    path.write_bytes(whole[:middle] + noise + whole[middle:])
    audio = decoded(path)
    assert audio.status == "partial"
    assert audio.bad_packets > 0
    assert (audio.status_reason or "").endswith("of damaged audio at 00:10 were replaced by silence")
    assert audio.duration_decoded_ms == pytest.approx(20_000, abs=30)


def test_a_cut_file_whose_header_promises_more_is_partial_and_says_how_much_is_there(tmp_path):
    path = mp3(tmp_path / "a.mp3")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    audio = decoded(path)
    assert (audio.status, audio.bad_packets, audio.duration_header_ms) == ("partial", 0, 20_000)
    assert audio.status_reason == "the header says 20.0 s, 10.0 s could be decoded"


def test_files_joined_end_to_end_are_decoded_to_the_end_though_their_formats_differ(tmp_path):
    first, second = mp3(tmp_path / "a.mp3"), mp3(tmp_path / "b.mp3", rate_hz=22_050, channels=1)
    first.write_bytes(first.read_bytes() + second.read_bytes())
    audio = decoded(first)
    assert audio.duration_decoded_ms == pytest.approx(40_000, abs=200)
    assert (audio.status, audio.status_reason) == ("ok", None)
    assert loudest_hz(audio.samples[-10 * SAMPLE_RATE_HZ :]) == pytest.approx(440, abs=1)


@pytest.mark.parametrize(
    ("container", "codec", "pixels", "n_frames"),
    [("mp4", "mpeg4", "yuv420p", 10), ("image2pipe", "png", "rgb24", 1)],
    ids=["silent film", "picture"],
)
def test_a_file_without_an_audio_stream_is_no_audio(tmp_path, container, codec, pixels, n_frames):
    audio = decoded(write_picture(tmp_path / "a.mp4", container, codec, pixels, n_frames))
    assert audio.status == "no_audio"
    assert audio.status_reason == "the file has no audio stream"
    assert audio.samples.size == audio.duration_decoded_ms == audio.channels == 0


def wav_without_samples(path: Path) -> None:
    write_tone(path, "wav", "pcm_s16le", 16_000, 1, 0)


def m4a_cut_before_its_index(path: Path) -> None:
    write_tone(path, "mp4", "aac", 48_000, 2, 5)
    path.write_bytes(path.read_bytes()[:20_000])


def caf_whose_header_points_before_its_beginning(path: Path) -> None:
    write_tone(path, "caf", "pcm_s16be", 48_000, 2, 5)
    whole = path.read_bytes()
    noise = np.random.default_rng(3).bytes(3_001)
    path.write_bytes(whole[:100] + noise + whole[100:])


UNREADABLE = {
    "empty": lambda path: path.write_bytes(b""),
    "noise": lambda path: path.write_bytes(np.random.default_rng(0).bytes(200_000)),
    "noise with a chance packet": lambda path: path.write_bytes(np.random.default_rng(1).bytes(200_000)),
    "web page": lambda path: path.write_bytes(b"\n<!DOCTYPE html><html><body>404 Not found</body></html>" * 20),
    "text": lambda path: path.write_bytes(b"Hello there.\n" * 100),
    "only a tag": lambda path: path.write_bytes(b"ID3\x04\0\0\0\0\x02\x01" + bytes(257)),
    "wav without samples": wav_without_samples,
    "m4a cut before its index": m4a_cut_before_its_index,
    "caf with a damaged header": caf_whose_header_points_before_its_beginning,
}


@pytest.mark.parametrize("make", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_audio_is_one_line_that_names_the_file_and_a_fix(tmp_path, make):
    path = tmp_path / "ep01.mp3"
    make(path)
    with pytest.raises(SourceError) as caught:
        decoded(path)
    assert str(path) in caught.value.message
    assert caught.value.fix
    assert "\n" not in str(caught.value)


def test_an_empty_file_and_a_web_page_are_called_that(tmp_path):
    (tmp_path / "a.mp3").write_bytes(b"")
    (tmp_path / "b.mp3").write_bytes(b"<html>404</html>")
    with pytest.raises(SourceError, match="0 bytes"):
        decoded(tmp_path / "a.mp3")
    with pytest.raises(SourceError, match="web page"):
        decoded(tmp_path / "b.mp3")


def test_a_playlist_cannot_pull_in_another_file(tmp_path):
    mp3(tmp_path / "private.mp3", seconds=3)
    playlist = tmp_path / "a.mp3"
    playlist.write_text("ffconcat version 1.0\nfile private.mp3\n")
    with pytest.raises(SourceError):
        decoded(playlist)


def test_a_file_that_is_not_there_may_be_tried_again(tmp_path):
    with pytest.raises(LibrarianError, match="can't be read") as caught:
        decoded(tmp_path / "gone.mp3")
    assert not isinstance(caught.value, SourceError)


def test_the_duration_of_the_header_comes_without_decoding(tmp_path):
    path = mp3(tmp_path / "a.mp3")
    path.write_bytes(path.read_bytes()[:50_000])
    assert header_duration_ms(path) == 20_000
    path.write_text("no audio")
    assert header_duration_ms(path) is None
    assert header_duration_ms(tmp_path / "gone.mp3") is None
