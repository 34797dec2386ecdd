"""An archive opened for work: its files, its settings, and its warehouse."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from librarian_pipeline.archive.layout import Archive, Discovery
from librarian_pipeline.archive.notes import read_front_matter
from librarian_pipeline.cache import DigestMemo
from librarian_pipeline.checks.blocking import blocking_reason
from librarian_pipeline.errors import ModelNotFoundError, SourceError, UsageError
from librarian_pipeline.lineage.graph import EPISODE_ASSETS, Item, items, upstream_items
from librarian_pipeline.lineage.outdated import World
from librarian_pipeline.lineage.recipes import recipe, transcript_source
from librarian_pipeline.settings import Settings, load_settings
from librarian_pipeline.storage.provenance import Provenance, Recipe, fingerprint
from librarian_pipeline.storage.warehouse import Failure, Warehouse

ABSENT = "absent"
UNDECLARED = "undeclared"
UNREADABLE = "unreadable"
MASS_DEPARTURE = 1
"""More files of one kind than this, and more than half of them, don't go unnoticed."""


class Workspace:
    """Everything that a command or an asset needs to know about the archive at `home`."""

    def __init__(self, home: Path, settings: Settings, warehouse: Warehouse | None = None) -> None:
        self.home = home
        self.settings = settings
        self.archive = Archive(home)
        self.warehouse = warehouse or Warehouse(self.archive.warehouse_dir)
        self._digests = DigestMemo(self.warehouse.cache_dir / "source-digests.json")

    @classmethod
    def open(cls, home: Path) -> "Workspace":
        """Raises `UsageError` if the settings are wrong."""
        return cls(home, load_settings(home))

    @property
    def run_lock_path(self) -> Path:
        """Held by a `librarian run` while it is at work."""
        return self.warehouse.root / ".run.lock"

    def observe(self, discovery: Discovery | None = None) -> World:
        """Recipes, sources and stored provenance as they are now: what `lineage.outdated` judges."""
        discovery = discovery or self.archive.discover()
        everything = items(discovery.episodes)
        return self._observe(discovery, about=everything, stored=everything)

    def observe_item(self, item: Item, discovery: Discovery) -> World:
        """The same, as far as it concerns one item: its recipe and sources, and what it is derived from."""
        return self._observe(discovery, about=[item], stored=[item, *upstream_items(item, discovery.episodes)])

    def _observe(self, discovery: Discovery, about: list[Item], stored: list[Item]) -> World:
        records = self._records(stored)
        failures = {item: failure for item in about if (failure := self.warehouse.failure(item.asset, item.partition))}
        recipes = {item: self._recipe(item, discovery) for item in about}
        sources = {item: self._sources(item, discovery, records.get(item)) for item in about}
        self._digests.save()
        checks = self.settings.checks
        blocks = {item: why for item, record in records.items() if (why := blocking_reason(record.measures, checks))}
        return World(tuple(discovery.episodes), recipes, sources, records, failures, blocks)

    def _records(self, wanted: Iterable[Item]) -> dict[Item, Provenance]:
        return {item: record for item in wanted if (record := self.warehouse.committed(item.asset, item.partition))}

    def failures(self, episodes: Iterable[str]) -> dict[Item, Failure]:
        """What couldn't be read, and hasn't changed since."""
        discovery = self.archive.discover()
        found = {item: self._failure(item, discovery) for item in items(episodes)}
        return {item: failure for item, failure in found.items() if failure is not None}

    def source_failures(self, episodes: Iterable[str]) -> dict[str, str]:
        """What couldn't be read of each episode, as one line."""
        return self._source_failures(episodes, self.archive.discover())

    def _source_failures(self, episodes: Iterable[str], discovery: Discovery) -> dict[str, str]:
        lines: dict[str, list[str]] = {}
        for item in (Item(asset, episode) for episode in episodes for asset in EPISODE_ASSETS):
            if failure := self._failure(item, discovery):
                lines.setdefault(str(item.partition), []).append(failure.line)
        return {episode: "; ".join(found) for episode, found in lines.items()}

    def _failure(self, item: Item, discovery: Discovery) -> Failure | None:
        """The item's failure on record, if it was about what is there now: a file may have been put back as it was."""
        failure = self.warehouse.failure(item.asset, item.partition)
        if failure is None or (item.partition is not None and item.partition not in discovery.episodes):
            return None
        records = self._records([item, *upstream_items(item, discovery.episodes)])
        sources = {item: self._sources(item, discovery, records.get(item))}
        now = World(tuple(discovery.episodes), {}, sources, records, {}).inputs(item)
        return failure if failure.inputs == now else None

    def tidy(self, *, prune: bool) -> None:
        """Removes half-written files of writers that are gone, and the outputs of episodes that are gone.

        Raises `UsageError` if most files of one kind are gone at once, unless `prune` says that this is meant: a disk that
        isn't mounted must not cost hours of transcription.
        """
        discovery = self.archive.discover()
        if not prune:
            self._refuse_mass_departure(discovery)
        self.warehouse.sweep()
        for item in self.departed(discovery):
            self.warehouse.drop(item.asset, str(item.partition))

    def _refuse_mass_departure(self, discovery: Discovery) -> None:
        kinds = {"audio": ("audio", "file"), "notes": ("notes", "file"), "published": ("transcripts", "published")}
        for kind, (asset, source) in kinds.items():
            records = {id: self.warehouse.provenance(asset, id) for id in self.warehouse.partitions(asset)}
            had = {id for id, record in records.items() if record and record.inputs.get(source, ABSENT) != ABSENT}
            have = {id for id, files in discovery.episodes.items() if getattr(files, kind) is not None}
            lost = had - have
            if len(lost) > MASS_DEPARTURE and len(lost) > len(had) / 2:
                folder = {"published": "transcripts"}.get(kind, kind)
                raise UsageError(
                    f"{len(lost)} of {len(had)} files are gone from {self.home / folder}",
                    "put them back; if you meant to remove them, run with --prune",
                )

    def departed(self, discovery: Discovery) -> list[Item]:
        """Stored partitions of episodes whose files are all gone."""
        gone: list[Item] = []
        for asset in EPISODE_ASSETS:
            known = {*self.warehouse.partitions(asset), *self.warehouse.failed_partitions(asset)}
            gone.extend(Item(asset, episode) for episode in sorted(known - discovery.episodes.keys()))
        return gone

    def _recipe(self, item: Item, discovery: Discovery) -> Recipe:
        """The item's recipe. Without the weights that it names, the step will say how to get them; the others go on."""
        files = discovery.episodes[item.partition] if item.partition is not None else None
        try:
            return recipe(item.asset, self.settings, files)
        except ModelNotFoundError as error:
            return {"unavailable": str(error)}

    def _sources(self, item: Item, discovery: Discovery, stored: Provenance | None) -> dict[str, str]:
        if item.asset == "gold_set":
            return {"gold_set.json": self._sha256(self.archive.gold_path)}
        if item.asset == "episodes":
            # Tags need no entry: they change only with the audio's digest, which is a column of its input `audio`.
            headers = {f"front matter[{id}]": self._header(files.notes) for id, files in discovery.episodes.items()}
            return {**headers, "unreadable files": fingerprint(self._source_failures(discovery.episodes, discovery))}
        if item.partition is None:
            return {}
        files = discovery.episodes[item.partition]
        match item.asset:
            case "audio":
                return {"file": self._sha256(files.audio), "name": files.audio.name if files.audio else ABSENT}
            case "notes":
                # Where the notes have no times, the chapters in the audio's tags are added to them.
                chapters = {"tags": self._sha256(files.audio)} if files.audio is not None else {}
                return {"file": self._sha256(files.notes), **chapters}
            case "transcripts":
                source = transcript_source(files, self.settings)
                if source == "none":
                    return {}
                published = {"published": self._sha256(files.published)} if source == "published" else {}
                overridden = source == "audio" and self.settings.whisper.language is not None
                language = {} if overridden else {"language": self._declared_language(files.notes, stored)}
                return {**language, **published}
            case _:
                return {}

    def digest(self, path: Path) -> str:
        """The SHA-256 of a file as it is now. Raises `OSError` where it can't be read."""
        return self._digests.sha256(path)

    def _sha256(self, path: Path | None) -> str:
        if path is None:
            return ABSENT
        try:
            return self._digests.sha256(path)
        except FileNotFoundError:
            return ABSENT
        except OSError as error:  # the step that reads the file says so
            return f"{UNREADABLE}: {error.strerror}"

    def _header(self, notes: Path | None) -> str:
        if notes is None:
            return ABSENT
        try:
            return fingerprint(asdict(read_front_matter(notes)))
        except (SourceError, OSError):
            return UNREADABLE

    def _declared_language(self, notes: Path | None, stored: Provenance | None) -> str:
        """The language that the notes declare. Notes that can't be read now leave it as it was."""
        if notes is None:
            return UNDECLARED
        try:
            return read_front_matter(notes).language or UNDECLARED
        except (SourceError, OSError):
            return (stored.inputs.get("language") if stored else None) or UNDECLARED
