"""Real speech through the real model: what damage costs, and whether citations lead to where a sentence is spoken."""

import difflib
import json
from functools import cache
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from librarian_pipeline.retrieval.citations import Citer
from librarian_pipeline.retrieval.indexing import load_searcher
from librarian_pipeline.settings import AudioSettings, Settings
from librarian_pipeline.speech.decode import decode
from librarian_pipeline.speech.samples import SAMPLE_RATE_HZ
from librarian_pipeline.speech.transcript import transcribe_file
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.pipeline.test_speech_quality import (
    ENGLISH,
    MAX_CITATION_OFF_MS,
    MIN_CITED_NEAR,
    SCRIPTS,
    normalized,
)

AUDIO = Path(__file__).parents[2] / "data" / "audio" / "ep02.opus"
SETTINGS = Settings(whisper={"model": "tiny.en"}, audio={"settle_s": 0})
MINUTE_S = 60
JUNK = np.random.default_rng(1).bytes(2_000)
# Around the junk, where words are lost or torn.
DAMAGED_S = 3
MAX_SHIFT_MS = 500
MIN_SAME_WORDS = 0.9

Word = tuple[str, int]


@cache
def speech() -> npt.NDArray[np.int16]:
    """The first minute of an episode."""
    return decode(AUDIO, AudioSettings()).samples[: MINUTE_S * SAMPLE_RATE_HZ].astype(np.int16)


def as_mp3(path: Path, samples: npt.NDArray[np.int16]) -> Path:
    with path.open("wb") as file, av.open(file, "w", format="mp3") as output:
        stream = output.add_stream("libmp3lame", rate=SAMPLE_RATE_HZ, layout="mono")
        stream.bit_rate = 64_000
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples).reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = SAMPLE_RATE_HZ
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def words_of(path: Path) -> list[Word]:
    """The words that are heard in a file, with where each begins."""
    return [
        (part, word["start_ms"])
        for row in transcribe_file(path, "ep02", "en", SETTINGS).segments.to_pylist()
        for word in row["words"]
        for part in normalized(word["word"]).split()
    ]


def same_words(first: list[Word], second: list[Word]) -> list[tuple[int, int]]:
    """Where each word that is in both begins in the one, and in the other."""
    matcher = difflib.SequenceMatcher(None, [word for word, _ in first], [word for word, _ in second], autojunk=False)
    return [
        (first[match.a + n][1], second[match.b + n][1]) for match in matcher.get_matching_blocks() for n in range(match.size)
    ]


def test_after_junk_in_a_minute_of_speech_every_word_is_where_it_was(tmp_path: Path) -> None:
    path = as_mp3(tmp_path / "speech.mp3", speech())
    undamaged = words_of(path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + JUNK + whole[middle:])
    audio = decode(path, SETTINGS.audio)
    assert audio.status == "partial"
    assert 59_000 <= audio.duration_decoded_ms <= 60_500
    later_ms = (MINUTE_S / 2 + DAMAGED_S) * 1_000
    pairs = [(before, after) for before, after in same_words(undamaged, words_of(path)) if before >= later_ms]
    assert len(pairs) >= MIN_SAME_WORDS * sum(start_ms >= later_ms for _, start_ms in undamaged) > 30
    assert max(abs(before - after) for before, after in pairs) <= MAX_SHIFT_MS


def test_of_two_joined_mp3s_of_speech_both_halves_are_in_the_transcript(tmp_path: Path) -> None:
    half = speech().size // 2
    parts = [as_mp3(tmp_path / f"{n}.mp3", samples) for n, samples in enumerate((speech()[:half], speech()[half:]))]
    joined = tmp_path / "joined.mp3"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    first, second = map(words_of, parts)
    heard = words_of(joined)
    border_ms = MINUTE_S / 2 * 1_000
    for part, start_ms, within in (
        (first, 0, [word for word in heard if word[1] < border_ms]),
        (second, border_ms, [word for word in heard if word[1] >= border_ms]),
    ):
        pairs = same_words(part, within)
        assert len(pairs) >= MIN_SAME_WORDS * len(part) > 30
        assert max(abs(before + start_ms - after) for before, after in pairs) <= MAX_SHIFT_MS


def test_sentences_are_cited_at_the_second_where_they_are_spoken(sample: Workspace) -> None:
    """Each sentence is searched for in its own words, in full; the first result is cited, of whatever episode it is."""
    searcher = load_searcher(sample.warehouse, sample.settings)
    citer = Citer(sample.warehouse, searcher)
    wrong, n_sentences = [], 0
    for episode in ENGLISH:
        for sentence in json.loads((SCRIPTS / f"{episode}.times.json").read_text("utf-8")):
            n_sentences += 1
            hits = searcher.search(sentence["text"], "bm25_stem", k=1)
            found = citer.cite(sentence["text"], hits[0].passage) if hits else None
            start_ms = found.start_ms if found and found.episode_id == episode else None
            earliest, latest = sentence["start_ms"] - MAX_CITATION_OFF_MS, sentence["end_ms"] + MAX_CITATION_OFF_MS
            if start_ms is None or not earliest <= start_ms <= latest:
                wrong.append(f"{episode} @ {sentence['start_ms']}: {found and found.text}: {sentence['text']}")
    right = n_sentences - len(wrong)
    assert right >= MIN_CITED_NEAR * n_sentences, f"{right} of {n_sentences} ({right / n_sentences:.1%})\n" + "\n".join(
        wrong
    )
