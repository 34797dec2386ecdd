import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from faster_whisper.transcribe import Segment

from librarian_pipeline.errors import ModelNotFoundError, UsageError
from librarian_pipeline.settings import CheckSettings, TranscriptSettings, WhisperSettings
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ, as_float
from librarian_pipeline.speech.transcribe import Transcriber, recipe
from librarian_pipeline.storage.schemas import TRANSCRIPTS
from librarian_pipeline_tests.speech import stand_in
from librarian_pipeline_tests.speech.sounds import as_int16, drone, music, silence, tone, white_noise


def test_speech_becomes_rows_of_the_transcript_table_with_its_words_in_time(tiny_en, spoken):
    transcript = tiny_en.transcribe(spoken, "ep01", "en")
    found = transcript.rows
    assert "the river froze" in " ".join(row["text"] for row in found).lower()
    assert all(row.keys() == set(TRANSCRIPTS.names) for row in found)
    pa.Table.from_pylist(found, schema=TRANSCRIPTS).validate(full=True)
    assert [row["segment_idx"] for row in found] == list(range(len(found)))
    first = found[0]
    assert (first["episode_id"], first["language"], first["source"], first["speaker"]) == ("ep01", "en", "whisper", None)
    assert (first["flags"], first["excluded"], first["decoding_pass"]) == ([], False, 1)
    words = [word for row in found for word in row["words"]]
    assert " ".join(word["word"] for word in words) == " ".join(row["text"] for row in found)
    times = [time for word in words for time in (word["start_ms"], word["end_ms"])]
    assert times == sorted(times)
    assert (first["start_ms"], found[-1]["end_ms"]) == (times[0], times[-1])
    assert times[-1] <= spoken.size / 16
    assert transcript.speech
    assert transcript.coverage.share > 0.95
    assert (transcript.windows_again, transcript.windows_won) == (0, 0)


def test_times_are_those_of_the_audio_though_its_silence_was_skipped(tiny_en, spoken):
    late = np.concatenate([np.zeros(20 * SAMPLE_RATE_HZ, spoken.dtype), spoken])
    at_once, after_silence = (tiny_en.transcribe(samples, "ep01", "en").rows[0] for samples in (spoken, late))
    assert after_silence["start_ms"] == pytest.approx(20_000 + at_once["start_ms"], abs=600)


def test_the_same_samples_give_the_same_transcript(tiny_en, spoken):
    another = Transcriber(WhisperSettings(model="tiny.en"))
    first, again, by_another = (model.transcribe(spoken, "ep01", "en") for model in (tiny_en, tiny_en, another))
    assert asdict(first) == asdict(again) == asdict(by_another)


def test_16_bit_samples_give_the_same_words(tiny_en, spoken):
    assert spoken.dtype == np.int16
    words = [row["text"] for row in tiny_en.transcribe(as_float(spoken), "ep01", "en").rows]
    assert [row["text"] for row in tiny_en.transcribe(spoken, "ep01", "en").rows] == words


SPEECHLESS = {
    "nothing": np.zeros(0, np.float32),
    "ten samples": np.zeros(10, np.float32),
    "silence": silence(40),
    "white noise": white_noise(40),
    "a tone": tone(40),
    "music": music(60),
    "16 bit silence": as_int16(silence(3)),
}


@pytest.mark.parametrize("samples", SPEECHLESS.values(), ids=SPEECHLESS)
@pytest.mark.parametrize("model", ["tiny_en", "base"])
def test_audio_without_speech_gives_no_words(request, model, samples):
    found = request.getfixturevalue(model).transcribe(samples, "ep01", None)
    assert [row for row in found.rows if not row["excluded"]] == []
    assert (found.speech, found.language, found.coverage.share) == ([], None, 1.0)


def test_without_speech_no_model_is_needed():
    for samples in (silence(0), silence(5)):
        assert Transcriber(WhisperSettings(model="/nowhere")).transcribe(samples, "ep01", None).rows == []


def test_progress_goes_up_to_the_whole_length(tiny_en, spoken):
    reports: list[tuple[float, float]] = []
    tiny_en.transcribe(spoken, "ep01", "en", lambda done, total: reports.append((done, total)))
    seconds = spoken.size / SAMPLE_RATE_HZ
    assert reports == sorted(reports)
    assert len(reports) >= 2
    assert {total for _, total in reports} == {seconds}
    assert reports[-1] == (seconds, seconds)


def test_the_language_is_detected_unless_the_episode_or_the_settings_say_it(base, spoken):
    assert {row["language"] for row in base.transcribe(spoken, "ep01", None).rows} == {"en"}
    assert {row["language"] for row in base.transcribe(spoken, "ep01", "de").rows} == {"de"}
    forced = Transcriber(WhisperSettings(model="base", beam_size=1, language="fr"))
    assert {row["language"] for row in forced.transcribe(spoken, "ep01", "de").rows} == {"fr"}


def test_a_language_that_whisper_does_not_know_is_one_line(base, spoken):
    with pytest.raises(UsageError, match="`xx`"):
        base.transcribe(spoken, "ep01", "xx")


def test_an_english_model_gives_english_and_says_so_when_asked_for_more(tiny_en, spoken, caplog):
    assert {row["language"] for row in tiny_en.transcribe(spoken, "ep01", "cs").rows} == {"en"}
    assert "knows only en, not cs" in caplog.text


def test_words_that_cannot_be_aligned_cost_their_times_not_their_text(caplog):
    """By a stand-in model: no real audio is known on which the alignment fails in the same way every time."""

    def fails(samples: np.ndarray, word_timestamps: bool, **options: Any) -> list[Segment]:
        if word_timestamps:
            raise IndexError("index 7 is out of bounds")
        return [stand_in.segment(1, 4, "The river froze.")]

    found = stand_in.transcriber(fails).transcribe(drone(5), "ep01", "en")
    assert [(row["text"], row["flags"]) for row in found.rows] == [("The river froze.", ["no_word_times"])]
    assert "words could not be aligned" in caplog.text


def test_words_lose_their_times_only_in_the_stretch_where_they_cannot_be_aligned(caplog):
    def fails_on_the_loud(samples: np.ndarray, word_timestamps: bool, **options: Any) -> list[Segment]:
        if word_timestamps and np.abs(samples).max() > 0.5:
            raise IndexError("index 7 is out of bounds")
        return [stand_in.segment(0.1, 0.9, "The river froze.")]

    sound = np.concatenate([part for level in (0.5, 0.5, 1, 0.5) for part in (drone(5) * np.float32(level), silence(4))])
    found = stand_in.transcriber(fails_on_the_loud).transcribe(sound, "ep01", "en")
    untimed = [row["start_ms"] for row in found.rows if "no_word_times" in row["flags"]]
    assert len(found.rows) == 3
    assert untimed == pytest.approx([18_100], abs=300)
    assert caplog.text.count("could not be aligned") == 1


def test_dropped_segments_are_counted(caplog):
    said = [stand_in.segment(1, 3, "Words."), stand_in.segment(1_000, 1_001, "Beyond."), stand_in.segment(2, 3, " ")]
    found = stand_in.transcriber(lambda samples, **options: said).transcribe(drone(5), "ep01", "en")
    assert [row["text"] for row in found.rows] == ["Words."]
    assert found.dropped_segments == 1
    assert "ep01: dropped 1 segments" in caplog.text


def made_by(whisper: Any = (), transcripts: Any = (), checks: Any = ()) -> dict[str, object]:
    return recipe(WhisperSettings(**dict(whisper)), TranscriptSettings(**dict(transcripts)), CheckSettings(**dict(checks)))


def test_the_recipe_names_all_that_can_change_the_text_and_nothing_else():
    plain = made_by()
    assert json.loads(json.dumps(plain)) == plain
    assert {"faster_whisper", "ctranslate2", "decoding"} < plain.keys()
    for change in ({"model": "tiny.en"}, {"compute_type": "float32"}, {"beam_size": 1}, {"device": "cpu"}):
        assert made_by(whisper=change) != plain
    for other in ({"block_s": 60}, {"second_pass": False}):
        assert made_by(transcripts=other) != plain
    assert made_by(transcripts={"prefer": "published"}, checks={"min_speech_coverage": 0.5}) == plain
    assert made_by(checks={"max_repeats": 3}) != plain


def test_the_recipe_and_the_module_load_no_inference_engine():
    heavy = ("faster_whisper", "ctranslate2", "onnxruntime", "torch", "dagster")
    code = (
        "import sys; from librarian_pipeline.settings import Settings; "
        "from librarian_pipeline.speech.transcribe import Transcriber, recipe; settings = Settings(); "
        "parts = (settings.whisper, settings.transcripts, settings.checks); recipe(*parts); Transcriber(*parts); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=os.environ.copy(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_weights_that_cannot_be_loaded_are_one_line(tmp_path, spoken):
    for name in ("model.bin", "config.json", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(ModelNotFoundError, match="can't be loaded") as caught:
        Transcriber(WhisperSettings(model=str(tmp_path))).transcribe(spoken, "ep01", "en")
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
