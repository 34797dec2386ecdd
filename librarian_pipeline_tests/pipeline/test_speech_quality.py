"""How well the sample's audio is understood, against the scripts it was spoken from."""

import json
import re
from pathlib import Path

import jiwer
import pytest

from librarian_pipeline.settings import CheckSettings
from librarian_pipeline.speech.coverage import coverage
from librarian_pipeline.workspace import Workspace

SCRIPTS = Path(__file__).parent.parent / "sample_archive" / "scripts"
MAX_ENGLISH_WER = 0.10
MAX_CZECH_CER = 0.30
MAX_DELETIONS = 0.03
MIN_CITED_NEAR = 0.95
MAX_CITATION_OFF_MS = 2_000
ENGLISH = ("ep01", "ep02", "ep03", "ep04")

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


@pytest.mark.parametrize("episode", ENGLISH)
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


def test_english_audio_loses_at_most_three_words_in_a_hundred(sample: Workspace) -> None:
    """Substituted words can often still be found by their neighbours; deleted ones are gone."""
    aligned = [
        jiwer.process_words(normalized(script(episode)), normalized(transcript(sample, episode))) for episode in ENGLISH
    ]
    spoken = sum(found.hits + found.substitutions + found.deletions for found in aligned)
    shares = {
        kind: sum(getattr(found, kind) for found in aligned) / spoken
        for kind in ("deletions", "insertions", "substitutions")
    }
    assert shares["deletions"] <= MAX_DELETIONS, f"of {spoken} words: {shares}, word error rate {sum(shares.values()):.3f}"


def test_sentences_are_found_at_the_second_where_they_are_spoken(sample: Workspace) -> None:
    """The first word of a sentence that was understood stands for it; a sentence of which no word was isn't found."""
    off_ms = [off for episode in ENGLISH for off in sentence_offsets_ms(sample, episode)]
    near = sum(off is not None and off <= MAX_CITATION_OFF_MS for off in off_ms)
    assert near / len(off_ms) >= MIN_CITED_NEAR, f"{near} of {len(off_ms)} sentences; in ms: {off_ms}"


def sentence_offsets_ms(sample: Workspace, episode: str) -> list[int | None]:
    """How far from its true start each sentence is found, by aligning the words of the script with those heard."""
    sentences = json.loads((SCRIPTS / f"{episode}.times.json").read_text("utf-8"))
    spoken = [(word, number) for number, sentence in enumerate(sentences) for word in normalized(sentence["text"]).split()]
    heard = [
        (part, word["start_ms"])
        for segment in sample.warehouse.read("transcripts", episode).to_pylist()
        for word in segment["words"]
        for part in normalized(word["word"]).split()
    ]
    aligned = jiwer.process_words(" ".join(word for word, _ in spoken), " ".join(word for word, _ in heard))
    found: dict[int, int] = {}
    for chunk in aligned.alignments[0]:
        if chunk.type == "equal":
            for offset in range(chunk.ref_end_idx - chunk.ref_start_idx):
                sentence = spoken[chunk.ref_start_idx + offset][1]
                found.setdefault(sentence, heard[chunk.hyp_start_idx + offset][1])
    return [
        abs(found[number] - sentence["start_ms"]) if number in found else None for number, sentence in enumerate(sentences)
    ]


@pytest.mark.parametrize("episode", [*ENGLISH, "ep05"])
def test_nearly_all_speech_that_is_heard_is_in_the_transcript(episode: str, sample: Workspace) -> None:
    spans = sample.warehouse.read("speech_spans", episode).to_pylist()
    segments = sample.warehouse.read("transcripts", episode).to_pylist()
    checks = CheckSettings()
    covered = coverage(segments, [(span["start_ms"], span["end_ms"]) for span in spans], checks.max_uncovered_speech_s)
    assert covered.speech_ms > 60_000
    assert covered.share >= checks.min_speech_coverage
    assert covered.uncovered == ()


def test_clear_speech_has_no_flag_and_is_all_from_the_first_pass(sample: Workspace) -> None:
    segments = [row for episode in (*ENGLISH, "ep05") for row in sample.warehouse.read("transcripts", episode).to_pylist()]
    assert [row["flags"] for row in segments if row["flags"]] == []
    assert {(row["decoding_pass"], row["excluded"]) for row in segments} == {(1, False)}


def test_a_published_transcript_has_no_pass_and_an_empty_table_of_speech_beside_it(sample: Workspace) -> None:
    assert set(sample.warehouse.read("transcripts", "ep06").column("decoding_pass").to_pylist()) == {None}
    assert sample.warehouse.read("speech_spans", "ep06").num_rows == 0
