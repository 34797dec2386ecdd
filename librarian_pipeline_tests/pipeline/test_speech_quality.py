"""How well the sample's audio is understood, against the scripts it was spoken from."""

import json
import re
from pathlib import Path

import jiwer
import pytest

from librarian_pipeline.workspace import Workspace

SCRIPTS = Path(__file__).parent.parent / "sample_archive" / "scripts"
MAX_ENGLISH_WER = 0.10
MAX_CZECH_CER = 0.30

# What counts as the same word: spelling on both sides of the Atlantic, and small numbers in digits.
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
SAME_WORDS = {
    **{str(number): word for number, word in enumerate(NUMBERS)},
    **{"20": "twenty", "30": "thirty", "40": "forty", "50": "fifty", "100": "hundred"},
    **{"neighbour": "neighbor", "millimetre": "millimeter", "metre": "meter", "metres": "meters", "colour": "color"},
    **{"grey": "gray", "programme": "program", "okay": "ok", "centre": "center"},
}


def normalized(text: str) -> str:
    """Lower case, without punctuation, one spelling for each word of `SAME_WORDS`; diacritics stay."""
    words = re.findall(r"[^\W_]+(?:'[^\W_]+)?", text.lower().replace("’", "'").replace("-", " "))
    return " ".join(SAME_WORDS.get(word, word) for word in words)


def script(episode: str) -> str:
    return " ".join(sentence["text"] for sentence in json.loads((SCRIPTS / f"{episode}.times.json").read_text("utf-8")))


def transcript(sample: Workspace, episode: str) -> str:
    return " ".join(sample.warehouse.read("transcripts", episode).column("text").to_pylist())


@pytest.mark.parametrize("episode", ["ep01", "ep02", "ep03", "ep04"])
def test_english_audio_is_transcribed_with_at_most_one_wrong_word_in_ten(episode: str, sample: Workspace) -> None:
    assert jiwer.wer(normalized(script(episode)), normalized(transcript(sample, episode))) <= MAX_ENGLISH_WER


def test_czech_audio_is_transcribed_with_at_most_three_wrong_characters_in_ten(sample: Workspace) -> None:
    assert jiwer.cer(normalized(script("ep05")), normalized(transcript(sample, "ep05"))) <= MAX_CZECH_CER


def test_the_normaliser_joins_spellings_and_keeps_diacritics() -> None:
    assert normalized("The NEIGHBOUR’S 2 well-kept zvonů.") == "the neighbour's two well kept zvonů"


@pytest.mark.parametrize("episode", ["ep01", "ep02", "ep03", "ep04", "ep05"])
def test_segments_lie_on_the_audios_timeline_in_order(episode: str, sample: Workspace) -> None:
    duration = sample.warehouse.read("audio", episode).column("duration_decoded_ms").to_pylist()[0]
    segments = sample.warehouse.read("transcripts", episode).to_pylist()
    starts = [segment["start_ms"] for segment in segments]
    assert starts == sorted(starts)
    assert all(0 <= segment["start_ms"] < segment["end_ms"] <= duration + 100 for segment in segments)


@pytest.mark.parametrize("episode", ["ep01", "ep02", "ep03", "ep04"])
def test_a_sentence_is_found_at_the_second_where_it_is_spoken(episode: str, sample: Workspace) -> None:
    sentences = json.loads((SCRIPTS / f"{episode}.times.json").read_text("utf-8"))
    spoken = [
        (word["word"], word["start_ms"])
        for segment in sample.warehouse.read("transcripts", episode).to_pylist()
        for word in segment["words"]
    ]
    last = max(sentences, key=lambda sentence: sentence["start_ms"])
    nearest = min(abs(start_ms - last["start_ms"]) for _, start_ms in spoken)
    assert nearest <= 1_000
