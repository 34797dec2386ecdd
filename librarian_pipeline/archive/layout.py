"""Where things are in an archive, and which files belong to which episode.

Files are only listed here, never opened. What can't be used is reported with what to do about it, and never guessed at.
"""

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from librarian_pipeline.errors import UsageError

AUDIO_FOLDER = "audio"
NOTES_FOLDER = "notes"
TRANSCRIPTS_FOLDER = "transcripts"

# Where an episode has two files of one kind, the suffix that comes first here wins: video comes last,
# because the video edition of an episode is often cut differently.
AUDIO_SUFFIXES = (
    *(".mp3", ".m4a", ".opus", ".ogg", ".flac", ".wav", ".aac", ".wma", ".m4b", ".oga", ".aiff", ".aif", ".mka"),
    *(".mp4", ".webm", ".mkv", ".mov", ".m4v"),
)
NOTES_SUFFIXES = (".md",)
TRANSCRIPT_SUFFIXES = (".vtt", ".srt", ".json")
PARTIAL_SUFFIXES = frozenset({".part", ".partial", ".crdownload", ".download", ".opdownload", ".tmp"})

EPISODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SYSTEM_FILES = frozenset({"thumbs.db", "desktop.ini"})
_SUFFIXES = {AUDIO_FOLDER: AUDIO_SUFFIXES, NOTES_FOLDER: NOTES_SUFFIXES, TRANSCRIPTS_FOLDER: TRANSCRIPT_SUFFIXES}


@dataclass(frozen=True)
class EpisodeFiles:
    """The files of one episode, at least one of which is there."""

    episode_id: str
    audio: Path | None
    notes: Path | None
    published: Path | None


@dataclass(frozen=True)
class SourceProblem:
    """A file that is left out, why, and what to do about it."""

    path: Path
    message: str
    fix: str

    @property
    def line(self) -> str:
        """The problem as one line."""
        return f"{self.message}: {self.fix}"


@dataclass(frozen=True)
class Discovery:
    """What an archive holds: its episodes, sorted by id, and the files that belong to none."""

    episodes: dict[str, EpisodeFiles]
    problems: tuple[SourceProblem, ...]


@dataclass(frozen=True)
class Archive:
    """The folders of an archive. None of them needs to exist, except that `discover` needs `home`."""

    home: Path

    @property
    def audio_dir(self) -> Path:
        return self.home / AUDIO_FOLDER

    @property
    def notes_dir(self) -> Path:
        return self.home / NOTES_FOLDER

    @property
    def transcripts_dir(self) -> Path:
        return self.home / TRANSCRIPTS_FOLDER

    @property
    def gold_path(self) -> Path:
        return self.home / "gold" / "gold_set.json"

    @property
    def baseline_path(self) -> Path:
        return self.home / "gold" / "baseline.json"

    @property
    def warehouse_dir(self) -> Path:
        return self.home / "warehouse"

    @property
    def dagster_home_dir(self) -> Path:
        return self.home / "dagster_home"

    @property
    def reports_dir(self) -> Path:
        return self.home / "reports"

    @property
    def published_dir(self) -> Path:
        return self.home / "published"

    def discover(self, only: str | None = None) -> Discovery:
        """The episodes of this archive, and the files that can't be used; with `only`, those of that episode alone.

        Raises `UsageError` if `home` is not a folder. An archive without episodes is not an error; see `empty_message`.
        """
        if not self.home.is_dir():
            raise UsageError(
                f"there is no archive at {self.home}",
                f"create that folder with {AUDIO_FOLDER}/, {NOTES_FOLDER}/ and {TRANSCRIPTS_FOLDER}/ in it, "
                "or name another one with --home DIR",
            )
        problems: list[SourceProblem] = []
        listed = {folder: _list_folder(self.home / folder, problems, only) for folder in _SUFFIXES}
        files = {folder: _files_by_id(listed[folder], suffixes, problems) for folder, suffixes in _SUFFIXES.items()}
        _drop_ids_that_differ_in_case(files, problems)
        episodes = {
            episode_id: EpisodeFiles(
                episode_id,
                audio=files[AUDIO_FOLDER].get(episode_id),
                notes=files[NOTES_FOLDER].get(episode_id),
                published=files[TRANSCRIPTS_FOLDER].get(episode_id),
            )
            for episode_id in _all_ids(files)
            if only is None or episode_id == only
        }
        return Discovery(episodes, tuple(problems))

    def empty_message(self) -> str:
        """The one line for people whose archive has no episode yet."""
        return (
            f"{self.home} has no episode yet: put recordings in {self.audio_dir}, notes (ID.md) in {self.notes_dir}, "
            f"or published transcripts in {self.transcripts_dir}"
        )


def _files_by_id(
    entries: Iterable["os.DirEntry[str]"], suffixes: tuple[str, ...], problems: list[SourceProblem]
) -> dict[str, Path]:
    """The usable files of a folder; the others are added to `problems`."""
    usable = [path for entry in entries if _is_usable(path := Path(entry.path), entry, suffixes, problems)]
    chosen: dict[str, Path] = {}
    for path in sorted(usable, key=lambda path: (suffixes.index(path.suffix.lower()), path.name)):
        first = chosen.setdefault(_episode_id(path), path)
        if first is not path:
            message = f"{_shown(path)} is not used, because {_shown(first)} has the same episode id"
            problems.append(SourceProblem(path, message, "keep one of the two"))
    return chosen


def _list_folder(folder: Path, problems: list[SourceProblem], only: str | None) -> Iterator["os.DirEntry[str]"]:
    """The folder's entries by name; with `only`, those that could be of this episode, or take its place."""
    try:
        with os.scandir(folder) as entries:
            listed = [entry for entry in entries if only is None or _same_but_for_case(entry.name, only)]
    except FileNotFoundError:
        return  # An archive needs only the folders that it uses.
    except OSError as error:
        message = f"{_shown(folder)} can't be listed ({error.strerror})"
        problems.append(SourceProblem(folder, message, "make it a folder that you may read"))
    else:
        yield from sorted(listed, key=lambda entry: entry.name)


def _same_but_for_case(name: str, episode_id: str) -> bool:
    # The stem is worked out only for the few names that begin alike: this is asked of every file, for every step.
    begins_alike = not name.isascii() or name[: len(episode_id)].lower() == episode_id.lower()
    return begins_alike and _episode_id(Path(name)).lower() == episode_id.lower()


def _is_usable(path: Path, entry: "os.DirEntry[str]", suffixes: tuple[str, ...], problems: list[SourceProblem]) -> bool:
    reason = _reason_against(path, entry, suffixes)
    if reason is not None:
        problems.append(SourceProblem(path, *reason))
        return False
    return not _is_clutter(path)


def _reason_against(path: Path, entry: "os.DirEntry[str]", suffixes: tuple[str, ...]) -> tuple[str, str] | None:
    """Why a file can't be used, and what to do about it, for people to read."""
    suffix = path.suffix.lower()
    if suffix in PARTIAL_SUFFIXES:
        message = f"{_shown(path)} is still being written"
        return message, "wait until it is complete, or delete it if nothing writes it any more"
    if _is_clutter(path):
        return None
    # What the listing already told of most entries; a link is followed as `Path` does, without an error for one in a circle.
    kind = path if entry.is_symlink() else entry
    if kind.is_dir():
        return f"{_shown(path)} is a folder", f"move its files up into {_shown(path.parent)}"
    if not kind.is_file():
        return f"{_shown(path)} is not a file", "replace it with the file that it should lead to"
    if suffix not in suffixes:
        return (
            f"{_shown(path)} has none of the suffixes that {_shown(path.parent)} takes",
            f"convert or rename it to one of {' '.join(suffixes)}",
        )
    if EPISODE_ID.fullmatch(_episode_id(path)) is None:
        allowed = "at most 64 of the letters A-Z and a-z, digits, dots, dashes and underscores, with a letter or digit first"
        return f"the name of {_shown(path)} can't be an episode id", f"rename it to {allowed}"
    return None


def _is_clutter(path: Path) -> bool:
    """Whether a file was left by a system or an editor, and no person means it to be an episode."""
    return path.name.startswith((".", "~$")) or path.name.endswith("~") or path.name.lower() in _SYSTEM_FILES


def _drop_ids_that_differ_in_case(files: dict[str, dict[str, Path]], problems: list[SourceProblem]) -> None:
    # Each episode gets files of its own further on, and on macOS and Windows those of EP03 and ep03 would be the same.
    kept: dict[str, str] = {}
    for episode_id in _all_ids(files):
        first = kept.setdefault(episode_id.lower(), episode_id)
        if first == episode_id:
            continue
        for paths in files.values():
            if episode_id in paths:
                path = paths.pop(episode_id)
                message = f"{_shown(path)} is not used, because its name differs from the episode {first} only in case"
                problems.append(SourceProblem(path, message, f"name it {first}, or give it an id of its own"))


def _all_ids(files: dict[str, dict[str, Path]]) -> list[str]:
    return sorted({episode_id for paths in files.values() for episode_id in paths})


def _episode_id(path: Path) -> str:
    return unicodedata.normalize("NFC", path.stem)


def _shown(path: Path) -> str:
    """A path that can be printed, even where the name on disk is not valid UTF-8."""
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")
