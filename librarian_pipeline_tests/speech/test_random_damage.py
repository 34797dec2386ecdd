"""Whatever is done to a file, decoding it ends well: with audio and an honest status, or with one clear line."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from librarian_pipeline.errors import LibrarianError
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ
from librarian_pipeline_tests.speech.sounds import decoded, write_tone

FORMATS = {
    "mp3": ("mp3", "libmp3lame", 44_100),
    "opus": ("ogg", "libopus", 48_000),
    "m4a": ("mp4", "aac", 44_100),
    "adts": ("adts", "aac", 44_100),
    "flac": ("flac", "flac", 44_100),
    "wav": ("wav", "pcm_s16le", 16_000),
    "matroska": ("matroska", "aac", 44_100),
    "mpegts": ("mpegts", "aac", 44_100),
    "caf": ("caf", "pcm_s16be", 16_000),
    "w64": ("w64", "pcm_s16le", 16_000),
}
MAX_HOURS = 0.01
POSITIONS = st.floats(0, 1, exclude_max=True)
# Half of the changes fall into the beginning, where the headers are.
PLACES = st.one_of(POSITIONS, POSITIONS.map(lambda position: position / 200))
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "splice"]), PLACES, st.integers(1, 3_000), st.integers(0, 2**32 - 1)
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("originals")
    return {
        name: write_tone(folder / name, container, codec, rate_hz, 1, 3).read_bytes()
        for name, (container, codec, rate_hz) in FORMATS.items()
    }


def changed(whole: bytes, other: bytes, changes: list[tuple[str, float, int, int]]) -> bytes:
    for kind, place, size, seed in changes:
        at = int(place * len(whole))
        if kind == "flip":
            flipped = bytes(byte ^ (1 << seed % 8) for byte in whole[at : at + 1 + size % 8])
            whole = whole[:at] + flipped + whole[at + len(flipped) :]
        elif kind == "cut":
            whole = whole[:at] + whole[at + size :]
        elif kind == "insert":
            whole = whole[:at] + np.random.default_rng(seed).bytes(size) + whole[at:]
        else:
            whole = whole[:at] + other[seed % len(other) :]
    return whole


@pytest.mark.parametrize("name", FORMATS)
def test_any_damage_ends_in_audio_with_an_honest_status_or_in_one_clear_line(name, originals, tmp_path_factory):
    path: Path = tmp_path_factory.mktemp("changed") / "ep.bin"

    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(changes=CHANGES, other=st.sampled_from(sorted(FORMATS)))
    def holds(changes, other):
        path.write_bytes(changed(originals[name], originals[other], changes))
        try:
            audio = decoded(path, max_hours=MAX_HOURS)
        except LibrarianError as raised:
            line = str(raised)
            assert str(path) in line and "\n" not in line  # noqa: PT018
            return
        assert audio.status in ("ok", "partial", "no_audio")
        assert (audio.status_reason is not None) >= (audio.status != "ok")
        assert audio.samples.size <= MAX_HOURS * 3_600 * SAMPLE_RATE_HZ
        assert audio.duration_decoded_ms == round(audio.samples.size / 16)
        assert audio.duration_header_ms is None or audio.duration_header_ms >= 0

    holds()
