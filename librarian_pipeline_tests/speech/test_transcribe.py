import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from faster_whisper.transcribe import Segment, Word

from librarian_pipeline.errors import ModelNotFoundError, UsageError
from librarian_pipeline.settings import AudioSettings, WhisperSettings
from librarian_pipeline.speech.decode import decode
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ, as_float
from librarian_pipeline.speech.transcribe import Transcriber, recipe, segment_rows
from librarian_pipeline.storage.schemas import TRANSCRIPTS
from librarian_pipeline_tests.speech.sounds import SPOKEN, tone


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIBRARIAN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def tiny_en() -> Transcriber:
    return Transcriber(WhisperSettings(model="tiny.en"))


@pytest.fixture(scope="module")
def base() -> Transcriber:
    return Transcriber(WhisperSettings(model="base", beam_size=1))


@pytest.fixture(scope="module")
def spoken() -> np.ndarray:
    return as_float(decode(SPOKEN, AudioSettings()).samples)


def segment(start: float, end: float, text: str = " Words.", words: list[Word] | None = None) -> Segment:
    scores = {"avg_logprob": -0.5, "compression_ratio": 1.0, "no_speech_prob": 0.1, "temperature": 0.0}
    return Segment(id=1, seek=0, start=start, end=end, text=text, tokens=[], words=words, **scores)


def rows(*segments: Segment, duration_ms: int = 60_000) -> list[dict[str, Any]]:
    return segment_rows(segments, "ep01", "en", duration_ms)


def test_speech_becomes_rows_of_the_transcript_table_with_its_words_in_time(tiny_en, spoken):
    found = tiny_en.transcribe(spoken, "ep01", "en")
    assert "the river froze" in " ".join(row["text"] for row in found).lower()
    assert all(list(row) == TRANSCRIPTS.names for row in found)
    pa.Table.from_pylist(found, schema=TRANSCRIPTS).validate(full=True)
    assert [row["segment_idx"] for row in found] == list(range(len(found)))
    first = found[0]
    assert (first["episode_id"], first["language"], first["source"], first["speaker"]) == ("ep01", "en", "whisper", None)
    assert (first["flags"], first["excluded"]) == ([], False)
    words = [word for row in found for word in row["words"]]
    assert " ".join(word["word"] for word in words) == " ".join(row["text"] for row in found)
    times = [time for word in words for time in (word["start_ms"], word["end_ms"])]
    assert times == sorted(times)
    assert (first["start_ms"], found[-1]["end_ms"]) == (times[0], times[-1])
    assert times[-1] <= spoken.size / 16


def test_times_are_those_of_the_audio_though_its_silence_was_skipped(tiny_en, spoken):
    late = np.concatenate([np.zeros(20 * SAMPLE_RATE_HZ, np.float32), spoken])
    at_once, after_silence = (tiny_en.transcribe(samples, "ep01", "en")[0] for samples in (spoken, late))
    assert after_silence["start_ms"] == pytest.approx(20_000 + at_once["start_ms"], abs=600)


def test_the_same_samples_give_the_same_rows(tiny_en, spoken):
    assert tiny_en.transcribe(spoken, "ep01", "en") == tiny_en.transcribe(spoken, "ep01", "en")


@pytest.mark.parametrize(
    "samples",
    [np.zeros(0, np.float32), np.zeros(10, np.float32), np.zeros(3 * SAMPLE_RATE_HZ, np.float32), tone(5)],
    ids=["nothing", "ten samples", "silence", "a tone"],
)
@pytest.mark.parametrize("model", ["tiny_en", "base"])
def test_audio_without_speech_gives_no_rows(request, model, samples):
    assert request.getfixturevalue(model).transcribe(samples, "ep01", None) == []


def test_without_samples_no_model_is_needed():
    assert Transcriber(WhisperSettings(model="/nowhere")).transcribe(np.zeros(0, np.float32), "ep01", None) == []


def test_progress_goes_up_to_the_whole_length(tiny_en, spoken):
    reports: list[tuple[float, float]] = []
    tiny_en.transcribe(spoken, "ep01", "en", lambda done, total: reports.append((done, total)))
    seconds = spoken.size / SAMPLE_RATE_HZ
    assert reports == sorted(reports)
    assert len(reports) >= 2
    assert {total for _, total in reports} == {seconds}
    assert reports[-1] == (seconds, seconds)


def test_the_language_is_detected_unless_the_episode_or_the_settings_say_it(base, spoken):
    assert {row["language"] for row in base.transcribe(spoken, "ep01", None)} == {"en"}
    assert {row["language"] for row in base.transcribe(spoken, "ep01", "de")} == {"de"}
    forced = Transcriber(WhisperSettings(model="base", beam_size=1, language="fr"))
    assert {row["language"] for row in forced.transcribe(spoken, "ep01", "de")} == {"fr"}


def test_a_language_that_whisper_does_not_know_is_one_line(base, spoken):
    with pytest.raises(UsageError, match="`xx`"):
        base.transcribe(spoken, "ep01", "xx")


def test_an_english_model_gives_english_and_says_so_when_asked_for_more(tiny_en, spoken, caplog):
    assert {row["language"] for row in tiny_en.transcribe(spoken, "ep01", "cs")} == {"en"}
    assert "knows only en, not cs" in caplog.text


def test_the_language_is_that_of_the_beginning_the_middle_and_the_end_together():
    minutes = np.repeat(np.float32([0.1, 0.2, 0.3]), 60 * SAMPLE_RATE_HZ)
    heard = {0.1: [("cs", 0.9), ("en", 0.1)], 0.2: [("en", 0.6), ("cs", 0.3)], 0.3: [("en", 0.7), ("de", 0.2)]}
    asked: list[tuple[str, int]] = []

    def detect_language(window: np.ndarray) -> tuple[None, None, list[tuple[str, float]]]:
        assert window.size == 30 * SAMPLE_RATE_HZ
        assert window[0] == window[-1]
        return None, None, heard[round(float(window[0]), 1)]

    def transcribe(samples: np.ndarray, language: str, **options: Any) -> tuple[list[Segment], SimpleNamespace]:
        asked.append((language, samples.size))
        return [], SimpleNamespace(language=language)

    transcriber = Transcriber(WhisperSettings())
    transcriber.__dict__["_model"] = SimpleNamespace(
        supported_languages=["cs", "de", "en"], detect_language=detect_language, transcribe=transcribe
    )
    transcriber.transcribe(minutes, "ep01", None)
    assert asked == [("en", minutes.size)]


def test_times_outside_the_audio_are_clamped_and_flagged():
    words = [Word(58.0, 59.0, " one", 0.9), Word(59.5, 61.25, " two", 0.8)]
    late, early = rows(segment(58.0, 61.25, words=words), segment(-0.5, 1.0))[::-1]
    assert (late["start_ms"], late["end_ms"], late["flags"]) == (58_000, 60_000, ["clamped"])
    assert [(word["start_ms"], word["end_ms"]) for word in late["words"]] == [(58_000, 59_000), (59_500, 60_000)]
    assert (early["start_ms"], early["end_ms"], early["flags"]) == (0, 1_000, ["clamped", "reordered"])


def test_segments_that_start_after_the_end_are_dropped_and_counted(caplog):
    found = rows(segment(1.0, 2.0), segment(60.0, 61.0), segment(75.0, 76.0))
    assert [row["start_ms"] for row in found] == [1_000]
    assert "ep01: dropped 2 segments" in caplog.text


def test_segments_out_of_order_are_sorted_flagged_and_numbered_anew():
    found = rows(segment(10.0, 12.0, " b"), segment(4.0, 5.0, " a"), segment(20.0, 22.0, " c"))
    assert [(row["segment_idx"], row["text"], row["flags"]) for row in found] == [
        (0, "a", ["reordered"]),
        (1, "b", []),
        (2, "c", []),
    ]


def test_text_is_stripped_and_empty_segments_are_dropped():
    assert [row["text"] for row in rows(segment(1, 2, "  Hello. "), segment(2, 3, " "), segment(3, 4, ""))] == ["Hello."]


def test_milliseconds_are_rounded():
    (row,) = rows(segment(1.0006, 2.0004))
    assert (row["start_ms"], row["end_ms"], row["flags"]) == (1_001, 2_000, [])


def test_the_recipe_names_all_that_can_change_the_text_and_nothing_else():
    plain = recipe(WhisperSettings())
    assert json.loads(json.dumps(plain)) == plain
    assert {"faster_whisper", "ctranslate2", "decoding"} < plain.keys()
    for change in ({"model": "tiny.en"}, {"compute_type": "float32"}, {"beam_size": 1}, {"device": "cpu"}):
        assert recipe(WhisperSettings(**change)) != plain


def test_the_recipe_and_the_module_load_no_inference_engine():
    heavy = ("faster_whisper", "ctranslate2", "onnxruntime", "torch", "dagster")
    code = (
        "import sys; from librarian_pipeline.settings import WhisperSettings as S; "
        "from librarian_pipeline.speech.transcribe import Transcriber, recipe; recipe(S()); Transcriber(S()); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=os.environ.copy(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_weights_that_cannot_be_loaded_are_one_line(tmp_path):
    for name in ("model.bin", "config.json", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(ModelNotFoundError, match="can't be loaded") as caught:
        Transcriber(WhisperSettings(model=str(tmp_path))).transcribe(tone(1), "ep01", "en")
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
