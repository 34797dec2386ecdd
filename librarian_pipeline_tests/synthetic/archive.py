"""A made-up archive on disk. Each episode is drawn from the seed and its own number: more of them change none of the others.

The settings ask for vectors without weights, since made-up words mean nothing to a model.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from librarian_pipeline.archive.timecodes import format_timecode
from librarian_pipeline_tests.synthetic.words import CZECH, ENGLISH, Language, draw, rarest

SEED = 4
MINUTES = 6
MAX_QUERIES = 40
QUERY_WORDS = 4

MS_PER_WORD = 400
SENTENCE_WORDS = (6, 16)
PAUSE_MS = (100, 900)
SECTION_MS = 120_000
SECTION_WORDS = 40
FIRST_DAY = date(2015, 1, 5)
SPEAKERS = ("Ada", "Bohumil")
SETTINGS = '[embeddings]\nmodel = "char-ngram"\n'


@dataclass(frozen=True)
class Cue:
    """A sentence of a transcript; times in milliseconds."""

    start_ms: int
    end_ms: int
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{' '.join(self.words).capitalize()}."


@dataclass(frozen=True)
class Section:
    """A section of the notes, which begins when one of the sentences does."""

    heading: str
    start_ms: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class Episode:
    id: str
    number: int
    language: Language
    cues: tuple[Cue, ...]
    sections: tuple[Section, ...]


def write_archive(home: Path, n_episodes: int, *, seed: int = SEED, minutes: int = MINUTES) -> None:
    """Writes the files of an archive into a folder that isn't there yet, or is empty.

    Raises `FileExistsError` for another one: made-up episodes must not get among real ones.
    """
    if home.exists() and any(home.iterdir()):
        raise FileExistsError(f"{home} is not empty: name a new folder, so that made-up episodes stay among themselves")
    for folder in ("transcripts", "notes", "gold"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    episodes = [write_episode(home, number, seed=seed, minutes=minutes) for number in range(1, n_episodes + 1)]
    _write(home / "gold" / "gold_set.json", _gold_text(list(_gold_set(episodes, seed))))
    _write(home / "librarian.toml", SETTINGS)


def write_episode(home: Path, number: int, *, seed: int = SEED, minutes: int = MINUTES) -> Episode:
    """Writes the transcript and the notes of one episode; another seed gives it other words."""
    episode = _episode(number, seed, minutes)
    _write(home / "transcripts" / f"{episode.id}.vtt", _transcript(episode))
    _write(home / "notes" / f"{episode.id}.md", _notes(episode))
    return episode


def _episode(number: int, seed: int, minutes: int) -> Episode:
    source = random.Random(f"{seed}:{number}")
    language = CZECH if number % 2 == 0 else ENGLISH
    cues = tuple(_cues(language, minutes * 60_000, source))
    return Episode(f"syn{number:05d}", number, language, cues, tuple(_sections(language, cues, source)))


def _cues(language: Language, length_ms: int, source: random.Random) -> Iterator[Cue]:
    clock = 0
    while clock < length_ms:
        words = tuple(draw(language, source.randint(*SENTENCE_WORDS), source))
        start = clock + source.randint(*PAUSE_MS)
        clock = start + len(words) * MS_PER_WORD
        yield Cue(start, clock, words)


def _sections(language: Language, cues: tuple[Cue, ...], source: random.Random) -> Iterator[Section]:
    due_ms = 0
    for cue in cues:
        if cue.start_ms >= due_ms:
            due_ms = cue.start_ms + SECTION_MS
            heading = f"{' '.join(draw(language, 3, source)).capitalize()} {format_timecode(cue.start_ms).replace(':', '-')}"
            yield Section(heading, cue.start_ms, tuple(draw(language, SECTION_WORDS, source)))


def _transcript(episode: Episode) -> str:
    blocks = [
        f"{_clock(cue.start_ms)} --> {_clock(cue.end_ms)}\n<v {SPEAKERS[number % len(SPEAKERS)]}>{cue.text}\n"
        for number, cue in enumerate(episode.cues)
    ]
    return "WEBVTT\n\n" + "\n".join(blocks)


def _clock(ms: int) -> str:
    seconds, fraction = divmod(ms, 1_000)
    return f"{seconds // 3_600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:03d}"


def _notes(episode: Episode) -> str:
    day = FIRST_DAY + timedelta(weeks=episode.number)
    head = f"---\ntitle: Synthetic episode {episode.number}\ndate: {day}\nlanguage: {episode.language.code}\n---\n"
    body = [
        f"\n## [{format_timecode(section.start_ms)}] {section.heading}\n\n{' '.join(section.words).capitalize()}.\n"
        for section in episode.sections
    ]
    return head + "".join(body)


def _gold_set(episodes: list[Episode], seed: int) -> Iterator[dict[str, Any]]:
    """About half of the episodes at most. Every third query is answered by a section of the notes, some by two sentences."""
    source = random.Random(f"{seed}:gold")
    asked = source.sample(episodes, min(-(-len(episodes) // 2), MAX_QUERIES))
    for number, episode in enumerate(asked, start=1):
        if number % 3 == 0:
            section = source.choice(episode.sections)
            words, spans = section.words, [{"episode": episode.id, "layer": "notes", "heading": section.heading}]
        else:
            cues = source.sample(episode.cues, 2 if number % 5 == 0 else 1)
            words, spans = tuple(word for cue in cues for word in cue.words), [_span(episode, cue) for cue in cues]
        yield {
            "id": f"syn-q{number:03d}",
            "query": " ".join(rarest(words, episode.language, QUERY_WORDS)),
            "language": episode.language.code,
            "kind": "keyword" if len(spans) == 1 else "synthesis",
            "split": "dev" if number % 2 == 0 else "test",
            "relevant": spans,
        }


def _span(episode: Episode, cue: Cue) -> dict[str, str]:
    """A sentence, widened to whole seconds."""
    end_ms = -(-cue.end_ms // 1_000) * 1_000
    times = {"start": format_timecode(cue.start_ms), "end": format_timecode(end_ms)}
    return {"episode": episode.id, "layer": "transcript", **times}


def _gold_text(queries: list[dict[str, Any]]) -> str:
    """One query a line."""
    return "[\n" + ",\n".join(json.dumps(query, ensure_ascii=False) for query in queries) + "\n]\n"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
