"""Damaged, cut, joined and odd files: what is saved, what is said, and that later times stay where they were."""

import re
import wave
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.audio.resampler import AudioResampler

from librarian_pipeline.errors import SourceError
from librarian_pipeline.speech import mixdown
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ, as_float
from librarian_pipeline_tests.speech.sounds import decoded, mp3, tone, write_picture, write_sound, write_tone

NOISE = np.random.default_rng(1).bytes(2_000)
CLICK_S = 45.0
TIMED = {
    "opus": ("ogg", "libopus", 48_000),
    "m4a": ("mp4", "aac", 44_100),
    "adts": ("adts", "aac", 44_100),
    "flac": ("flac", "flac", 44_100),
    "matroska": ("matroska", "aac", 44_100),
    "mpegts": ("mpegts", "aac", 44_100),
}


def with_click(seconds: float = 60, at_s: float = CLICK_S, rate_hz: int = 44_100) -> np.ndarray:
    """A quiet tone with a loud click."""
    sound = tone(seconds, rate_hz) / 3
    sound[round(at_s * rate_hz) : round((at_s + 0.01) * rate_hz)] = 0.95
    return sound


def click_s(samples: np.ndarray, after_s: float) -> float:
    start = round(after_s * SAMPLE_RATE_HZ)
    return float((np.abs(samples[start:].astype(int)).argmax() + start) / SAMPLE_RATE_HZ)


def inserted(whole: bytes, at: int, junk: bytes = NOISE) -> bytes:
    return whole[:at] + junk + whole[at:]


def overwritten(whole: bytes, at: int, junk: bytes = NOISE) -> bytes:
    return whole[:at] + junk + whole[at + len(junk) :]


@pytest.mark.parametrize("damage", [inserted, overwritten])
def test_junk_in_the_middle_of_an_mp3_costs_less_than_a_second_and_shifts_nothing(tmp_path, damage):
    path = write_sound(tmp_path / "a.mp3", with_click(), "mp3", "libmp3lame", 44_100)
    undamaged = click_s(decoded(path).samples, 40)
    assert undamaged == pytest.approx(CLICK_S, abs=0.05)
    whole = path.read_bytes()
    path.write_bytes(damage(whole, len(whole) // 2))
    audio = decoded(path)
    assert audio.status == "partial"
    assert "damaged audio at 00:29 were replaced by silence" in (audio.status_reason or "")
    assert audio.bad_packets > 0
    assert audio.duration_decoded_ms >= 59_000
    assert click_s(audio.samples, 40) == pytest.approx(undamaged, abs=0.05)


@pytest.mark.parametrize(("container", "codec", "rate_hz"), TIMED.values(), ids=TIMED)
def test_after_damage_in_any_format_the_rest_is_in_its_place(tmp_path, container, codec, rate_hz):
    path = write_sound(tmp_path / "a", with_click(20, 17, rate_hz), container, codec, rate_hz)
    undamaged = click_s(decoded(path).samples, 16)
    whole = path.read_bytes()
    path.write_bytes(overwritten(whole, len(whole) // 2))
    audio = decoded(path)
    assert audio.status == "partial"
    assert "were replaced by silence" in (audio.status_reason or "")
    assert click_s(audio.samples, 16) == pytest.approx(undamaged, abs=0.05)
    assert audio.duration_decoded_ms == pytest.approx(20_000, abs=100)


def test_the_reason_tells_how_much_was_lost_and_where(tmp_path):
    path = mp3(tmp_path / "a.mp3")
    whole = path.read_bytes()
    path.write_bytes(overwritten(whole, len(whole) // 2, bytes(20_000)))
    audio = decoded(path)
    assert audio.status_reason == "1.3 s of damaged audio at 00:10 were replaced by silence"
    at = round(10.5 * SAMPLE_RATE_HZ)
    assert not audio.samples[at : at + 8_000].any()


JOINED = {
    "mp3": ("mp3", "libmp3lame"),
    **{name: settings[:2] for name, settings in TIMED.items()},
    "wav": ("wav", "pcm_s16le"),
}
JOINED |= {"w64": ("w64", "pcm_s16le"), "caf": ("caf", "pcm_s16be"), "aiff": ("aiff", "pcm_s16be")}


@pytest.mark.parametrize(("container", "codec"), JOINED.values(), ids=JOINED)
def test_of_two_files_joined_end_to_end_both_are_heard_and_nothing_is_called_lost(tmp_path, container, codec):
    first = write_tone(tmp_path / "a", container, codec, 48_000, 1, 5)
    second = write_sound(tmp_path / "b", with_click(5, 3, 48_000), container, codec, 48_000)
    first.write_bytes(first.read_bytes() + second.read_bytes())
    audio = decoded(first)
    assert (audio.status, audio.status_reason, audio.bad_packets) == ("ok", None, 0)
    assert audio.duration_decoded_ms == pytest.approx(10_000, abs=150)
    assert click_s(audio.samples, 6) == pytest.approx(8, abs=0.1)


@pytest.mark.parametrize(("container", "codec"), [JOINED[name] for name in ("mp3", "flac", "ogg", "m4a") if name in JOINED])
def test_of_a_wav_with_a_file_of_another_format_joined_on_both_are_heard(tmp_path, container, codec):
    first = write_tone(tmp_path / "a", "wav", "pcm_s16le", 48_000, 1, 5)
    second = write_sound(tmp_path / "b", with_click(5, 3, 48_000), container, codec, 48_000)
    first.write_bytes(first.read_bytes() + second.read_bytes())
    audio = decoded(first)
    assert audio.duration_decoded_ms == pytest.approx(10_000, abs=200)
    assert click_s(audio.samples, 6) == pytest.approx(8, abs=0.1)


@pytest.mark.parametrize("film_first", [False, True])
def test_a_silent_film_among_joined_files_is_told_and_the_others_are_heard(tmp_path, film_first):
    film = write_picture(tmp_path / "film", "mp4", "mpeg4", "yuv420p", 10).read_bytes()
    sound = write_sound(tmp_path / "sound", with_click(5, 3, 44_100), "mp4", "aac", 44_100).read_bytes()
    path = tmp_path / "a.mp4"
    path.write_bytes(film + sound + film if film_first else sound + film + sound)
    audio = decoded(path)
    assert audio.status == "partial"
    said = "2 (at 0.0, 5.0 s)" if film_first else "1 (at 5.0 s)"
    assert f"of the files that were joined, {said} can't be read as audio" in (audio.status_reason or "")
    assert audio.duration_decoded_ms == pytest.approx(5_000 if film_first else 10_000, abs=150)
    assert click_s(audio.samples, 0 if film_first else 6) == pytest.approx(3 if film_first else 8, abs=0.1)


@pytest.mark.parametrize("failing_call", [2, 6])
def test_where_the_mixer_fails_silence_of_that_length_stands_and_later_times_are_right(tmp_path, monkeypatch, failing_call):
    """The sixth call is the one that brings out the rest, at the end. No file is known on which the mixer itself fails."""
    calls = []

    class Failing:
        def __init__(self, **options):
            self._real = AudioResampler(**options)

        def resample(self, frame):
            calls.append(frame)
            if len(calls) == failing_call:
                raise av.error.InvalidDataError(1, "failed")
            return self._real.resample(frame)

    path = write_sound(tmp_path / "a.wav", with_click(4.5, 3.5, 48_000), "wav", "pcm_s16le", 48_000)
    monkeypatch.setattr(mixdown, "AudioResampler", Failing)
    audio = decoded(path)
    assert len(calls) >= failing_call
    assert audio.status == "partial"
    assert "of damaged audio at 00:0" in (audio.status_reason or "")
    assert audio.duration_decoded_ms == 4_500
    assert click_s(audio.samples, 3) == pytest.approx(3.5, abs=0.05)


def test_damage_in_the_second_of_two_joined_files_is_bridged_though_the_times_begin_anew(tmp_path):
    path = write_tone(tmp_path / "a.opus", "ogg", "libopus", 48_000, 1, 10)
    second = write_sound(tmp_path / "b.opus", with_click(20, 17, 48_000), "ogg", "libopus", 48_000).read_bytes()
    path.write_bytes(path.read_bytes() + overwritten(second, len(second) // 2))
    audio = decoded(path)
    assert "were replaced by silence" in (audio.status_reason or "")
    assert click_s(audio.samples, 22) == pytest.approx(27, abs=0.05)


def test_a_tag_between_joined_mp3s_is_neither_damage_nor_time(tmp_path):
    path = mp3(tmp_path / "a.mp3", seconds=5)
    picture = b"ID3\x03\0\0\0\0\x7f\x7f" + (NOISE * 9)[:16_383]
    path.write_bytes(path.read_bytes() + picture + path.read_bytes())
    audio = decoded(path)
    assert (audio.status, audio.bad_packets) == ("ok", 0)
    assert audio.duration_decoded_ms == pytest.approx(10_000, abs=150)


@pytest.mark.parametrize(
    "tag",
    [
        b"TAG" + bytes(125),
        b"APETAGEX\xd0\x07\0\0\x0c\x01\0\0" + bytes(284),
        b"LYRICSBEGIN" + b"la " * 99 + b"000299LYRICS200",
    ],
)
def test_tags_at_the_end_of_an_mp3_are_not_damage(tmp_path, tag):
    path = mp3(tmp_path / "a.mp3", seconds=3)
    path.write_bytes(path.read_bytes() + tag)
    assert (decoded(path).status, decoded(path).bad_packets) == ("ok", 0)


def test_an_mp3_without_a_header_frame_is_as_long_as_it_decodes(tmp_path):
    sound = np.concatenate([tone(15, 44_100) * 0, np.random.default_rng(2).uniform(-0.5, 0.5, 15 * 44_100)])
    path = tmp_path / "a.mp3"
    with path.open("wb") as file, av.open(file, "w", format="mp3", options={"write_xing": "0"}) as output:
        stream = output.add_stream(
            "libmp3lame", rate=44_100, layout="mono", options={"global_quality": "600", "flags": "+qscale"}
        )
        frame = av.AudioFrame.from_ndarray((sound * 32_767).astype(np.int16).reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = 44_100
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    audio = decoded(path)
    assert abs((audio.duration_header_ms or 0) - audio.duration_decoded_ms) > 2_000  # FFmpeg's estimate is off
    assert audio.status == "ok"
    assert audio.duration_decoded_ms == pytest.approx(30_000, abs=100)


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


ANNOUNCED = {
    "wav": ("wav", "pcm_s16le"),
    "w64": ("w64", "pcm_s16le"),
    "caf": ("caf", "pcm_s16be"),
    "aiff": ("aiff", "pcm_s16be"),
    "flac": ("flac", "flac"),
    "matroska": ("matroska", "aac"),
}


@pytest.mark.parametrize(("container", "codec"), ANNOUNCED.values(), ids=ANNOUNCED)
def test_a_cut_file_that_announces_more_is_partial_and_what_is_there_is_heard(tmp_path, container, codec):
    path = write_tone(tmp_path / "a", container, codec, 48_000, 1, 20)
    cut_in_half(path)
    audio = decoded(path)
    assert audio.status == "partial"
    assert any(said in (audio.status_reason or "") for said in ("the file ends early", "the header says 20.0 s"))
    assert audio.duration_decoded_ms == pytest.approx(10_000, abs=600)


def test_an_ogg_file_cut_within_its_last_page_is_partial(tmp_path):
    path = write_tone(tmp_path / "a.opus", "ogg", "libopus", 48_000, 1, 20)
    path.write_bytes(path.read_bytes()[:-700])
    audio = decoded(path)
    assert audio.status == "partial"
    assert "bytes that it announces are missing" in (audio.status_reason or "")


def test_an_m4a_cut_after_its_index_is_partial(tmp_path):
    path = tmp_path / "a.m4a"
    with (
        path.open("wb") as file,
        av.open(file, "w", format="mp4", options={"movflags": "frag_keyframe+empty_moov"}) as output,
    ):
        stream = output.add_stream("aac", rate=48_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(
            (tone(20, 48_000) * 32_767).astype(np.int16).reshape(1, -1), format="s16", layout="mono"
        )
        frame.sample_rate = 48_000
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    cut_in_half(path)
    audio = decoded(path)
    assert audio.status == "partial"
    assert audio.duration_decoded_ms > 8_000


def wav_data_size(size: int | None) -> Callable[[bytes], bytes]:
    def change(whole: bytes) -> bytes:
        at = whole.index(b"data") + 4
        stated = int.from_bytes(whole[at : at + 4], "little") if size is None else size
        return whole[:4] + (0).to_bytes(4, "little") + whole[8:at] + stated.to_bytes(4, "little") + whole[at + 4 :]

    return change


@pytest.mark.parametrize(
    "size", [0, 0xFFFF_FFFF, 0x7FFF_F000, 32_000], ids=["0", "unknown", "unknown too", "wrapped at 4 GiB"]
)
def test_a_wav_whose_size_is_not_that_of_its_samples_is_heard_to_its_end(tmp_path, size):
    path = write_tone(tmp_path / "a.wav", "wav", "pcm_s16le", 16_000, 1, 5)
    path.write_bytes(wav_data_size(size)(path.read_bytes()))
    audio = decoded(path)
    assert (audio.status, audio.status_reason) == ("ok", None)
    assert audio.duration_decoded_ms == 5_000


def test_where_the_channels_cancel_each_other_out_one_of_them_is_heard(tmp_path):
    sound = tone(6, 44_100)
    half = sound.size // 2
    path = write_sound(
        tmp_path / "a.wav", np.stack([sound, np.r_[sound[:half], -sound[half:]]]), "wav", "pcm_s16le", 44_100, "stereo"
    )
    audio = decoded(path)
    assert audio.status == "ok"
    assert re.search(r"for (2\.9|3\.0) s the channels cancel each other out", audio.status_reason or "")
    for second in range(6):
        part = as_float(audio.samples[second * SAMPLE_RATE_HZ : (second + 1) * SAMPLE_RATE_HZ])
        assert np.sqrt(np.mean(part**2)) == pytest.approx(0.3 / np.sqrt(2), abs=0.02)


@pytest.mark.parametrize(
    ("container", "codec", "layout"), [("flac", "flac", "5.1"), ("matroska", "aac", "5.1"), ("wav", "pcm_s16le", "7.1")]
)
def test_surround_sound_is_mixed(tmp_path, container, codec, layout):
    channels = av.AudioLayout(layout).nb_channels
    audio = decoded(write_sound(tmp_path / "a", np.tile(tone(3, 48_000), (channels, 1)), container, codec, 48_000, layout))
    assert (audio.status, audio.channels) == ("ok", channels)
    assert np.abs(as_float(audio.samples[4_000:-4_000])).max() == pytest.approx(0.3, abs=0.05)


def test_more_channels_than_any_layout_has_are_averaged(tmp_path):
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((49, 2, 16_000, 0, "NONE", ""))
        file.writeframes(np.repeat((tone(3) * 32_767).astype(np.int16), 49).tobytes())
    audio = decoded(tmp_path / "a.wav")
    assert (audio.status, audio.channels, audio.duration_decoded_ms) == ("ok", 49, 3_000)
    assert np.abs(as_float(audio.samples)).max() == pytest.approx(0.3, abs=0.01)


def write_two_streams(path: Path, default: int, picture: bool = False) -> None:
    """A silent stream and one with a tone, of which `default` is marked."""
    with path.open("wb") as file, av.open(file, "w", format="matroska") as output:
        video = output.add_stream("mpeg4", rate=5) if picture else None
        streams = [output.add_stream("pcm_s16le", rate=16_000, layout="mono") for _ in range(2)]
        for idx, stream in enumerate(streams):
            stream.disposition = av.stream.Disposition.default if idx == default else av.stream.Disposition(0)
        if video is not None:
            video.width, video.height, video.pix_fmt = 32, 32, "yuv420p"
            for _ in range(5):
                output.mux(video.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8))))
            output.mux(video.encode(None))
        for stream, sound in zip(streams, (tone(3) * 0, tone(3)), strict=True):
            frame = av.AudioFrame.from_ndarray((sound * 32_767).astype(np.int16).reshape(1, -1), format="s16", layout="mono")
            frame.sample_rate = 16_000
            output.mux(stream.encode(frame))
            output.mux(stream.encode(None))


@pytest.mark.parametrize("default", [0, 1])
@pytest.mark.parametrize("picture", [False, True])
def test_of_several_streams_the_default_one_is_heard_and_the_others_are_named(tmp_path, default, picture):
    write_two_streams(tmp_path / "a.mkv", default, picture)
    audio = decoded(tmp_path / "a.mkv")
    assert audio.status == "ok"
    assert bool(audio.samples.any()) == (default == 1)
    index = default + picture
    assert f"stream {index}" in (audio.status_reason or "").split(" was taken")[0]


def test_an_mp3_with_a_cover_is_heard(tmp_path):
    path = tmp_path / "a.mp3"
    mp3(path, seconds=3)
    picture = b"\0image/png\0\x03\0\x89PNG\r\n\x1a\n" + bytes(300)
    frame = b"APIC" + len(picture).to_bytes(4, "big") + b"\0\0" + picture
    path.write_bytes(b"ID3\x03\0\0\0\0" + bytes([len(frame) >> 7, len(frame) & 127]) + frame + path.read_bytes())
    audio = decoded(path)
    assert (audio.status, audio.bad_packets) == ("ok", 0)
    assert audio.duration_decoded_ms == pytest.approx(3_000, abs=60)


def write_with_times(path: Path, times_s: list[float]) -> None:
    """A Matroska file with 0.1 s of sound at each of these times."""
    block = (tone(0.1, 16_000) * 32_767).astype(np.int16).reshape(1, -1)
    with path.open("wb") as file, av.open(file, "w", format="matroska") as output:
        stream = output.add_stream("pcm_s16le", rate=16_000, layout="mono")
        for time_s in times_s:
            frame = av.AudioFrame.from_ndarray(block, format="s16", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = 16_000, round(time_s * 16_000), Fraction(1, 16_000)
            for packet in stream.encode(frame):
                packet.pts = packet.dts = round(time_s * 16_000)
                output.mux(packet)


STEPS = [idx / 10 for idx in range(20)]


@pytest.mark.parametrize(
    ("times_s", "seconds", "status"),
    [
        (STEPS, 2.0, "ok"),
        ([*STEPS, *(4 + step for step in STEPS)], 6.0, "partial"),
        ([*STEPS, *(100_000 + step for step in STEPS)], 4.0, "partial"),
        ([5 + step for step in STEPS], 2.0, "ok"),
    ],
    ids=["steady", "a gap of 2 s", "a forged jump", "a late start"],
)
def test_a_gap_in_the_times_is_silence_unless_it_is_beyond_belief(tmp_path, times_s, seconds, status):
    write_with_times(tmp_path / "a.mkv", times_s)
    audio = decoded(tmp_path / "a.mkv")
    assert audio.duration_decoded_ms == pytest.approx(seconds * 1_000, abs=20)
    assert audio.status == status


def forged_rate(path: Path, rate_hz: int) -> Path:
    write_tone(path, "wav", "pcm_s16le", 16_000, 1, 60)
    whole = path.read_bytes()
    path.write_bytes(whole[:24] + rate_hz.to_bytes(4, "little") + (rate_hz * 2).to_bytes(4, "little") + whole[32:])
    return path


def test_a_sample_rate_that_no_recording_has_is_refused(tmp_path):
    with pytest.raises(SourceError, match="a sample rate of 1 Hz"):
        decoded(forged_rate(tmp_path / "a.wav", 1))


def test_what_goes_on_beyond_the_limit_is_left_out_and_said(tmp_path):
    audio = decoded(forged_rate(tmp_path / "a.wav", 1_000), max_hours=0.01)
    assert audio.samples.size == 36 * SAMPLE_RATE_HZ
    assert (audio.status, audio.status_reason) == ("partial", "only the first 0.01 hours were decoded (`[audio] max_hours`)")


def test_a_small_file_that_decodes_to_much_is_stopped(tmp_path):
    path = write_sound(tmp_path / "a.flac", np.zeros((2, 48_000 * 60)), "flac", "flac", 48_000, "stereo")
    assert path.stat().st_size < 50_000
    audio = decoded(path, max_decoded_gb=0.001)
    assert audio.status == "partial"
    assert "after 0.001 GB (`[audio] max_decoded_gb`)" in (audio.status_reason or "")
    assert audio.duration_decoded_ms < 6_000


def test_the_samples_are_those_of_faster_whispers_own_decoder(tmp_path):
    from faster_whisper.audio import decode_audio

    path = write_sound(
        tmp_path / "a.mp3", np.stack([with_click(5, 3), tone(5, 44_100)]), "mp3", "libmp3lame", 44_100, "stereo"
    )
    np.testing.assert_array_equal(as_float(decoded(path).samples), decode_audio(str(path)))
