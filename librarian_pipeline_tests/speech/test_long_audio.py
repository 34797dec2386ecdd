"""Audio that is taken in blocks: the same words at the same times, in memory that doesn't grow with its length."""

import difflib
import subprocess
import sys
from pathlib import Path

import jiwer
import numpy as np
import pytest

from librarian_pipeline.settings import TranscriptSettings, WhisperSettings
from librarian_pipeline.speech.transcribe import Transcriber, Transcript
from librarian_pipeline_tests.pipeline.test_speech_quality import normalized, script
from librarian_pipeline_tests.speech.sounds import as_int16, silence

BLOCK_S = 60
# The tolerance of a cut. Whisper decodes windows of 30 s, and after a cut they begin elsewhere: a word that it hears half
# may then be heard as another. The cut run must be no worse against the script than the uncut one.
MIN_SAME_WORDS = 0.97
MAX_WER_DIFFERENCE = 0.02
TYPICAL_SHIFT_MS = 100
MAX_SHIFT_MS = 1_000

# What a run of this length may add to the peak memory of one of a block. In floats, the samples alone would add 115 MB.
LONG_MINUTES = 30
MAX_GROWTH_MB = 60


@pytest.fixture(scope="module")
def several_minutes(episodes):
    # All of 16 bits: together with floats, they would become floats far beyond -1 to 1.
    return np.concatenate([episodes["ep01"], as_int16(silence(3)), episodes["ep03"], as_int16(silence(1.5))])


@pytest.fixture(scope="module")
def uncut(tiny_en, several_minutes) -> Transcript:
    return tiny_en.transcribe(several_minutes, "ep01", "en")


@pytest.fixture(scope="module")
def cut(several_minutes) -> Transcript:
    return Transcriber(WhisperSettings(model="tiny.en"), TranscriptSettings(block_s=BLOCK_S)).transcribe(
        several_minutes, "ep01", "en"
    )


def words(transcript: Transcript) -> list[tuple[str, int]]:
    return [
        (part, word["start_ms"])
        for row in transcript.rows
        for word in row["words"]
        for part in normalized(word["word"]).split()
    ]


def test_blocks_give_the_words_of_the_uncut_run_at_the_same_times(cut, uncut):
    whole, pieces = words(uncut), words(cut)
    matcher = difflib.SequenceMatcher(None, [word for word, _ in whole], [word for word, _ in pieces], autojunk=False)
    assert matcher.ratio() >= MIN_SAME_WORDS
    shifts = sorted(
        abs(whole[match.a + n][1] - pieces[match.b + n][1])
        for match in matcher.get_matching_blocks()
        for n in range(match.size)
    )
    assert shifts[round(len(shifts) * 0.95)] <= TYPICAL_SHIFT_MS
    assert shifts[-1] <= MAX_SHIFT_MS


def test_blocks_are_as_true_to_the_script_as_the_uncut_run(cut, uncut):
    spoken = normalized(f"{script('ep01')} {script('ep03')}")
    whole, pieces = (jiwer.wer(spoken, " ".join(word for word, _ in words(found))) for found in (uncut, cut))
    assert pieces <= whole + MAX_WER_DIFFERENCE


def test_windows_have_ids_of_their_own_in_every_block_and_speech_is_that_of_the_whole(cut, uncut):
    ids = [row["window_id"] for row in cut.rows]
    assert ids == sorted(ids)
    starts = {window: min(row["start_ms"] for row in cut.rows if row["window_id"] == window) for window in ids}
    assert len(starts) >= 6
    assert all(row["end_ms"] - starts[row["window_id"]] <= 30_000 + 3_000 for row in cut.rows), (
        "segments of windows that are minutes apart share an id"
    )
    assert cut.speech == uncut.speech
    assert cut.coverage.share > 0.95


def test_progress_over_blocks_never_goes_back(several_minutes):
    reports: list[tuple[float, float]] = []
    first = several_minutes[: 70 * 16_000]
    Transcriber(WhisperSettings(model="tiny.en", beam_size=1), TranscriptSettings(block_s=BLOCK_S)).transcribe(
        first, "ep01", "en", lambda done, total: reports.append((done, total))
    )
    assert reports == sorted(reports)
    assert reports[-1] == (70.0, 70.0)
    assert len(reports) > 10


PEAK_CODE = """
import resource, sys
import numpy as np
from librarian_pipeline.settings import AudioSettings, TranscriptSettings, WhisperSettings
from librarian_pipeline.speech.decode import decode
from librarian_pipeline.speech.transcribe import Transcriber
from pathlib import Path

minutes = int(sys.argv[1])
spoken = decode(Path(sys.argv[2]), AudioSettings()).samples[: 60 * 16_000]
samples = np.ones(minutes * 60 * 16_000, np.int16)
samples[: spoken.size] = spoken
samples[-spoken.size // 4 :] = spoken[: spoken.size // 4]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
transcriber = Transcriber(WhisperSettings(model="tiny.en", beam_size=1), TranscriptSettings(block_s=60))
found = transcriber.transcribe(samples, "ep01", "en")
assert found.rows[-1]["end_ms"] > (minutes - 1) * 60_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000 - samples.nbytes / 1e6)
"""


def peak_mb(minutes: int, audio: Path) -> float:
    """The peak of resident memory of a process of its own, in MB, without the samples."""
    command = [sys.executable, "-c", PEAK_CODE, str(minutes), str(audio)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_memory_does_not_grow_with_length():
    audio = Path(__file__).parents[2] / "data" / "audio" / "ep01.opus"
    assert peak_mb(LONG_MINUTES, audio) - peak_mb(2, audio) <= MAX_GROWTH_MB
