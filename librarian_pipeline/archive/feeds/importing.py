"""What of a feed to bring into an archive, and bringing it: audio, a published transcript, and notes for each episode.

What is due is a pure function of the feed, the ledger and the files that are there: a second import brings only what is new
or has changed, and one that was interrupted is simply started again. A file that somebody else made or edited is left alone.
The ledger says what a file will be before it is there: an import that was killed at any point still knows its files.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from librarian_pipeline.archive.feeds.download import Downloaded, DownloadError, PartFile, Report, shown
from librarian_pipeline.archive.feeds.ledger import Brought, Episode, Ledger, write_text_at_once
from librarian_pipeline.archive.feeds.media import (
    HEAD_BYTES,
    audio_suffix,
    choose_enclosure,
    is_web_page,
    rank_transcripts,
    transcript_format,
)
from librarian_pipeline.archive.feeds.naming import assign_ids, item_key
from librarian_pipeline.archive.feeds.rss import Chapter, Feed, Item, parse_feed
from librarian_pipeline.archive.feeds.shownotes import parse_chapters, write_notes
from librarian_pipeline.archive.feeds.sources import BYTES_PER_MB, Source, open_source
from librarian_pipeline.archive.layout import AUDIO_FOLDER, NOTES_FOLDER, TRANSCRIPTS_FOLDER, Archive, EpisodeFiles
from librarian_pipeline.archive.published import read_published
from librarian_pipeline.cache import file_sha256
from librarian_pipeline.errors import LibrarianError, SourceError
from librarian_pipeline.progress import Progress
from librarian_pipeline.settings import FeedSettings
from librarian_pipeline.text.languages import UNDETERMINED

STAGE = "import"
AUDIO, TRANSCRIPT, NOTES = KINDS = ("audio", "transcript", "notes")
_FOLDERS = {AUDIO: AUDIO_FOLDER, TRANSCRIPT: TRANSCRIPTS_FOLDER, NOTES: NOTES_FOLDER}
_REPORT_EVERY_S = 0.1
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Job:
    """What is to be brought of one item."""

    key: str
    episode_id: str
    item: Item
    kinds: tuple[str, ...]
    present: EpisodeFiles | None
    """the episode's files that are there already"""
    is_new: bool

    @property
    def audio_bytes(self) -> int:
        """How long the feed says that the audio to be brought is; 0 where it doesn't say."""
        enclosure = choose_enclosure(self.item) if AUDIO in self.kinds else None
        return (enclosure.length or 0) if enclosure else 0


@dataclass(frozen=True)
class Plan:
    """What an import would bring, the newest first."""

    source: Source
    jobs: tuple[Job, ...]
    n_unchanged: int
    remarks: tuple[str, ...]
    """what of the feed is not taken, a line each"""

    @property
    def planned_mb(self) -> float:
        """Megabytes of audio, as far as the feed says."""
        return sum(job.audio_bytes for job in self.jobs) / BYTES_PER_MB


@dataclass
class ImportReport:
    """What an import did, by episode id."""

    n_unchanged: int
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    failed: dict[str, list[str]] = field(default_factory=dict)
    """lines that say what couldn't be brought, and why"""
    remarks: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """The whole as one line."""
        parts = [f"{len(self.new)} new", f"{self.n_unchanged} unchanged", f"{len(self.failed)} failed"]
        if self.changed:
            parts.insert(1, f"{len(self.changed)} changed")
        return ", ".join(parts)


def read_feed(feed: str, settings: FeedSettings) -> tuple[Source, Feed]:
    """The feed at a path or an address, for one request. Raises `UsageError` where it can't be had or read."""
    source = open_source(feed, settings)
    return source, parse_feed(source.read(), source.name)


def plan_import(source: Source, parsed: Feed, archive: Archive, settings: FeedSettings, limit: int | None = None) -> Plan:
    """What is new or changed in a feed: at most `limit` episodes of it, the newest first.

    Asks nobody, and changes nothing. Raises `UsageError` where the ledger can't be read.
    """
    ledger = Ledger.read(archive.home)
    present = archive.discover().episodes if archive.home.is_dir() else {}
    items, remarks = _usable_items(parsed, settings.max_episodes)
    ids = assign_ids(items, {key: episode.id for key, episode in ledger.episodes.items()}, present)
    jobs = [_job(key, ids[key], item, ledger.episodes.get(key), present.get(ids[key])) for key, item in items.items()]
    due = [job for job in jobs if job.kinds]
    return Plan(source, tuple(due[:limit]), len(jobs) - len(due), tuple(remarks))


def _usable_items(feed: Feed, max_episodes: int) -> tuple[dict[str, Item], list[str]]:
    """The items to import by key, the newest first, and a line for each reason why others are left out."""
    usable: dict[str, Item] = {}
    repeated: Counter[str] = Counter()
    n_empty = 0
    for item in feed.items:
        key = item_key(feed, item)
        if choose_enclosure(item) is None and not rank_transcripts(item):
            n_empty += 1
        elif key in usable:
            repeated[key] += 1
        else:
            usable[key] = item
    newest = sorted(usable, key=lambda key: usable[key].published or _LONG_AGO, reverse=True)
    remarks = [
        f"{n} more of the feed's items have the guid of another, {key}: the first is taken" for key, n in repeated.items()
    ]
    if n_empty:
        remarks.append(f"{n_empty} of the feed's items have neither audio nor a transcript: not taken")
    if len(newest) > max_episodes:
        remarks.append(f"the feed has {len(newest)} episodes: the newest {max_episodes} are taken (max_episodes in [feeds])")
    return {key: usable[key] for key in newest[:max_episodes]}, remarks


def _job(key: str, episode_id: str, item: Item, known: Episode | None, present: EpisodeFiles | None) -> Job:
    files, coming = (known.files, known.coming) if known else ({}, {})
    kinds = tuple(
        kind
        for kind in KINDS
        if (sources := _sources(kind, item))
        and (kind in coming or _is_due(files.get(kind), sources, _present(kind, present)))
    )
    return Job(key, episode_id, item, kinds, present, is_new=not files)


def _is_due(record: Brought | None, sources: tuple[str, ...], present: Path | None) -> bool:
    return present is None or record is None or record.sources != sources


def _present(kind: str, files: EpisodeFiles | None) -> Path | None:
    if files is None:
        return None
    return {AUDIO: files.audio, TRANSCRIPT: files.published, NOTES: files.notes}[kind]


def _sources(kind: str, item: Item) -> tuple[str, ...]:
    """What a file of that kind would be made from; empty where the item has nothing for it."""
    if kind == AUDIO:
        enclosure = choose_enclosure(item)
        return (enclosure.url,) if enclosure else ()
    if kind == TRANSCRIPT:
        return tuple(tag.url for tag in rank_transcripts(item))
    chapters = [astuple(chapter) for chapter in item.chapters]
    said = [item.title, str(item.published), item.language, item.description, item.chapters_url, chapters]
    return (hashlib.sha256(json.dumps(said).encode()).hexdigest(),)


class Importer:
    """Carries out a plan."""

    def __init__(self, plan: Plan, archive: Archive, progress: Progress) -> None:
        self._plan = plan
        self._home = archive.home
        self._progress = progress
        self._ledger = Ledger.read(archive.home)
        self._report = ImportReport(plan.n_unchanged, remarks=list(plan.remarks))
        self._bring_kind = {AUDIO: self._bring_audio, TRANSCRIPT: self._bring_transcript, NOTES: self._bring_notes}

    def bring(self) -> ImportReport:
        """Brings what is planned. What can't be brought is in the report, and due again the next time.

        Raises `LibrarianError` where the archive can't be written.
        """
        try:
            self._bring_all()
        except OSError as error:
            message = f"{error.filename or self._home} can't be written ({error.strerror})"
            raise LibrarianError(message, "make room or mend its rights, and import again to go on from there") from error
        return self._report

    def _bring_all(self) -> None:
        for job in self._plan.jobs:
            self._ledger.episodes.setdefault(job.key, Episode(job.episode_id)).title = job.item.title
        if self._plan.jobs:
            # Before any file is there: an import that is killed must find the ids that it gave.
            self._home.mkdir(parents=True, exist_ok=True)
            self._ledger.save()
            for job in self._plan.jobs:
                self._bring_job(job)
            self._ledger.save()
        self._report.remarks += _skipped_transcripts(self._plan.jobs)

    def _bring_job(self, job: Job) -> None:
        failures: list[str] = []
        n_left = 0
        for kind in job.kinds:
            is_settled = self._settle(job, kind)
            if is_settled and self._is_up_to_date(job, kind):
                continue
            if not is_settled and self._leaves(job, kind):
                n_left += 1
                continue
            try:
                failures += self._bring_kind[kind](job)
            except LibrarianError as error:
                failures.append(f"{kind}: {error}")
        if failures:
            self._report.failed[job.episode_id] = failures
        elif n_left == len(job.kinds):
            self._report.n_unchanged += 1
        else:
            (self._report.new if job.is_new else self._report.changed).append(job.episode_id)

    def _bring_audio(self, job: Job) -> list[str]:
        enclosure = choose_enclosure(job.item)
        if enclosure is None:
            return []
        part = self._part(job, AUDIO)
        got = self._plan.source.fetch(enclosure.url, part, self._reporter(job.episode_id, enclosure.length))
        with part.path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        suffix = audio_suffix(head, enclosure.url, enclosure.media_type, got.content_type)
        if not head or is_web_page(head) or suffix is None:
            part.discard()
            found = "an empty file" if not head else "a web page" if is_web_page(head) else "something unknown"
            raise DownloadError(f"{shown(enclosure.url)} gives {found} instead of audio", "look at the address in a browser")
        self._publish(job, AUDIO, got, suffix)
        return []

    def _bring_transcript(self, job: Job) -> list[str]:
        """The first of the item's transcripts that can be had and read."""
        problems: list[str] = []
        for tag in rank_transcripts(job.item):
            part = self._part(job, TRANSCRIPT)
            try:
                got = self._plan.source.fetch(tag.url, part, self._reporter(f"{job.episode_id} transcript", None))
                # The language only spares the detection: what counts is whether there are cues, and of which format.
                found = read_published(part.path, job.episode_id, UNDETERMINED)
            except DownloadError as error:
                problems.append(str(error))
            except SourceError:
                part.discard()
                problems.append(f"{shown(tag.url)} is not a transcript with times")
            else:
                self._publish(job, TRANSCRIPT, got, f".{found.format}")
                self._report.remarks += [
                    f"{job.episode_id}: another transcript is taken, because {line}" for line in problems
                ]
                return []
        return [f"transcript: {line}" for line in problems]

    def _bring_notes(self, job: Job) -> list[str]:
        chapters, failures = self._chapters(job.item)
        text = write_notes(job.item, chapters)
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        path = self._path(job, NOTES, ".md")
        # Without its chapters the file is not what it should be, and due again.
        record = Brought(self._relative(path), digest, () if failures else _sources(NOTES, job.item))
        self._announce(job, NOTES, record)
        write_text_at_once(path, text)
        self._complete(job, NOTES, record)
        return failures

    def _chapters(self, item: Item) -> tuple[tuple[Chapter, ...], list[str]]:
        """The chapters of the file that the item names, else those in the feed; and what went wrong."""
        if item.chapters_url is None:
            return item.chapters, []
        try:
            return parse_chapters(self._plan.source.document(item.chapters_url)) or item.chapters, []
        except LibrarianError as error:
            return item.chapters, [f"chapters: {error}"]

    def _settle(self, job: Job, kind: str) -> bool:
        """Ends what an import that was killed may have begun: whether the file that it announced is there."""
        coming = self._episode(job).coming.pop(kind, None)
        if coming is None or not self._is_ours(self._path(job, kind, Path(coming.file).suffix), coming):
            return False
        self._complete(job, kind, coming)
        self._part(job, kind).discard()
        return True

    def _is_up_to_date(self, job: Job, kind: str) -> bool:
        record = self._record(job, kind)
        return record is not None and record.sources == _sources(kind, job.item)

    def _leaves(self, job: Job, kind: str) -> bool:
        """Whether a file is there that an import didn't write, or that was edited since: it stays, and that is said once."""
        present, record = _present(kind, job.present), self._record(job, kind)
        if present is None or (record is not None and self._is_ours(present, record)):
            return False
        self._report.remarks.append(f"{self._relative(present)} was put there or edited by hand: left as it is")
        self._episode(job).files[kind] = Brought(self._relative(present), "", _sources(kind, job.item))
        self._ledger.save()
        return True

    def _is_ours(self, path: Path, record: Brought) -> bool:
        return self._relative(path) == record.file and path.is_file() and file_sha256(path) == record.sha256

    def _publish(self, job: Job, kind: str, got: Downloaded, suffix: str) -> None:
        """Gives a complete file its name."""
        target = self._path(job, kind, suffix)
        version, sources, sha256 = got.version, _sources(kind, job.item), file_sha256(got.part.path)
        record = Brought(self._relative(target), sha256, sources, version.url, version.etag, version.last_modified)
        self._announce(job, kind, record)
        got.part.publish(target)
        self._complete(job, kind, record)

    def _announce(self, job: Job, kind: str, record: Brought) -> None:
        """Notes what a file will be. What it replaces stays noted too: either may be there after a kill."""
        self._episode(job).coming[kind] = record
        self._ledger.save()

    def _complete(self, job: Job, kind: str, record: Brought) -> None:
        """Removes the file that an announced one replaces, and notes that it did.

        That is saved with what is noted next. Until then the ledger announces the file, from which `_settle` knows it.
        """
        replaced = self._record(job, kind)
        if replaced is not None and replaced.file != record.file:
            path = self._path(job, kind, Path(replaced.file).suffix)
            if self._is_ours(path, replaced):
                path.unlink()
        episode = self._episode(job)
        episode.files[kind] = record
        episode.coming.pop(kind, None)

    def _episode(self, job: Job) -> Episode:
        return self._ledger.episodes[job.key]

    def _record(self, job: Job, kind: str) -> Brought | None:
        return self._episode(job).files.get(kind)

    def _path(self, job: Job, kind: str, suffix: str) -> Path:
        return self._home / _FOLDERS[kind] / f"{job.episode_id}{suffix}"

    def _part(self, job: Job, kind: str) -> PartFile:
        return PartFile(self._path(job, kind, ".part"))

    def _relative(self, path: Path) -> str:
        return path.relative_to(self._home).as_posix()

    def _reporter(self, item: str, stated: int | None) -> Report:
        """Tells the progress in megabytes, not more often than anybody can see."""
        last = -_REPORT_EVERY_S

        def report(done: int, total: int | None) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= _REPORT_EVERY_S or done == total:
                last = now
                whole = max(done, total or stated or 0)
                self._progress.report(STAGE, item, done / BYTES_PER_MB, whole / BYTES_PER_MB, "MB")

        return report


def _skipped_transcripts(jobs: Iterable[Job]) -> list[str]:
    """A line for each type of transcripts that have no times."""
    tags = (tag for job in jobs if TRANSCRIPT in job.kinds or job.is_new for tag in job.item.transcripts)
    types = Counter(tag.media_type or "unnamed" for tag in tags if transcript_format(tag) is None)
    return [f"transcripts of the type {name} have no times: {n} skipped" for name, n in sorted(types.items())]
