"""An archive opened for work: its files, its settings, and its warehouse."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from librarian_pipeline.archive.headers import header_of
from librarian_pipeline.archive.layout import Archive, Discovery, EpisodeFiles
from librarian_pipeline.cache import DigestMemo
from librarian_pipeline.checks.blocking import blocking_reason
from librarian_pipeline.errors import ModelNotFoundError, UsageError
from librarian_pipeline.lineage.graph import EPISODE_ASSETS, Item, items, upstream_items
from librarian_pipeline.lineage.outdated import World
from librarian_pipeline.lineage.ranked_from import BASELINE, README
from librarian_pipeline.lineage.recipes import recipe, transcript_source
from librarian_pipeline.settings import Settings, load_settings
from librarian_pipeline.storage.provenance import Provenance, Recipe, fingerprint
from librarian_pipeline.storage.warehouse import WHOLE, Failure, Warehouse

ABSENT = "absent"
UNDECLARED = "undeclared"
UNREADABLE = "unreadable"
KINDS_OF_FILES = ("audio", "notes", "published")
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
        world = self._observe(discovery, about=everything, stored=everything)
        self.warehouse.memo.save()
        return world

    def observe_item(self, item: Item, discovery: Discovery) -> World:
        """The same, as far as it concerns one item: its recipe and sources, and what it is derived from.

        Of an episode's item, `discovery` needs to hold that episode alone.
        """
        return self._observe(discovery, about=[item], stored=[item, *upstream_items(item, discovery.episodes)])

    def _observe(self, discovery: Discovery, about: list[Item], stored: list[Item]) -> World:
        records = self._records(stored)
        failures = self._failures_on_record(about)
        recipes = self._recipes(about, discovery)
        sources = {item: self._sources(item, discovery, records.get(item)) for item in about}
        with suppress(OSError):  # what can't be kept, in an archive that may only be read, is worked out again
            self._digests.save()
        checks = self.settings.checks
        blocks = {item: why for item, record in records.items() if (why := blocking_reason(record.measures, checks))}
        return World(tuple(discovery.episodes), recipes, sources, records, failures, blocks)

    def _records(self, wanted: Iterable[Item]) -> dict[Item, Provenance]:
        return {item: record for item in wanted if (record := self.warehouse.committed(item.asset, item.partition))}

    def _failures_on_record(self, wanted: Collection[Item]) -> dict[Item, Failure]:
        """Failures are few: where many items are asked about, the folders are listed instead of trying each name."""
        if len(wanted) > 1:
            listed = {asset: set(self.warehouse.failed_partitions(asset)) for asset in {item.asset for item in wanted}}
            wanted = [item for item in wanted if (item.partition or WHOLE) in listed[item.asset]]
        return {item: failure for item in wanted if (failure := self.warehouse.failure(item.asset, item.partition))}

    def failures(self, episodes: Iterable[str], discovery: Discovery | None = None) -> dict[Item, Failure]:
        """What couldn't be read, and hasn't changed since."""
        return self._failures(items(episodes), discovery or self.archive.discover())

    def source_failures(self, episodes: Iterable[str], discovery: Discovery | None = None) -> dict[str, str]:
        """What couldn't be read of each episode, as one line."""
        wanted = [item for item in items(episodes) if item.partition is not None]
        lines: dict[str, list[str]] = {}
        for item, failure in self._failures(wanted, discovery or self.archive.discover()).items():
            lines.setdefault(str(item.partition), []).append(failure.line)
        return {episode: "; ".join(found) for episode, found in lines.items()}

    def _failures(self, wanted: list[Item], discovery: Discovery) -> dict[Item, Failure]:
        """Those on record that are about what is there now: a file may have been put back as it was."""
        there = [item for item in wanted if item.partition is None or item.partition in discovery.episodes]
        found = self._failures_on_record(there)
        return {item: failure for item, failure in found.items() if failure.inputs == self._inputs_now(item, discovery)}

    def _inputs_now(self, item: Item, discovery: Discovery) -> Mapping[str, str]:
        records = self._records([item, *upstream_items(item, discovery.episodes)])
        sources = {item: self._sources(item, discovery, records.get(item))}
        return World(tuple(discovery.episodes), {}, sources, records, {}).inputs(item)

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
            have = {id for id, files in discovery.episodes.items() if _has(files, kind)}
            lost = had - have
            if len(lost) > MASS_DEPARTURE and len(lost) > len(had) / 2:
                folder = {"published": "transcripts"}.get(kind, kind)
                raise UsageError(
                    f"{len(lost)} of {len(had)} files are gone from {self.home / folder}",
                    "put them back; if you meant to remove them, use `librarian run --prune`",
                )

    def departed(self, discovery: Discovery) -> list[Item]:
        """Stored partitions of episodes whose files are all gone."""
        gone: list[Item] = []
        for asset in EPISODE_ASSETS:
            known = {*self.warehouse.partitions(asset), *self.warehouse.failed_partitions(asset)}
            gone.extend(Item(asset, episode) for episode in sorted(known - discovery.episodes.keys()))
        return gone

    def _recipes(self, wanted: Iterable[Item], discovery: Discovery) -> dict[Item, Recipe]:
        """The items' recipes. Those of an asset differ only with the kinds of files that an episode has."""
        worked_out: dict[tuple[str, ...], Recipe] = {}
        found: dict[Item, Recipe] = {}
        for item in wanted:
            files = discovery.episodes[item.partition] if item.partition is not None else None
            key = (item.asset, *(kind for kind in KINDS_OF_FILES if _has(files, kind)))
            if key not in worked_out:
                worked_out[key] = self._recipe(item.asset, files)
            found[item] = worked_out[key]
        return found

    def _recipe(self, asset: str, files: EpisodeFiles | None) -> Recipe:
        """The recipe. Without the weights that it names, the step will say how to get them; the others go on."""
        try:
            return recipe(asset, self.settings, files)
        except ModelNotFoundError as error:
            return {"unavailable": str(error)}

    def _sources(self, item: Item, discovery: Discovery, stored: Provenance | None) -> dict[str, str]:
        if item.asset == "gold_set":
            return {"gold_set.json": self._sha256(self.archive.gold_path)}
        if item.asset == "eval_scores":
            readme = {README: self._sha256(self.readme_path)} if self.readme_path is not None else {}
            return {BASELINE: self._sha256(self.archive.baseline_path), **readme}
        if item.asset == "episodes":
            # Tags need no entry: they change only with the audio's digest, which is a column of its input `audio`.
            told = {f"front matter[{id}]": _header(files.notes) for id, files in discovery.episodes.items()}
            return {**told, "unreadable files": fingerprint(self.source_failures(discovery.episodes, discovery))}
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
                language = {} if overridden else {"language": _declared_language(files.notes, stored)}
                return {**language, **published}
            case _:
                return {}

    @property
    def readme_path(self) -> Path | None:
        """The file whose score table has to be the measured one, if the settings name one."""
        readme = self.settings.gates.readme
        return self.home / readme if readme is not None else None

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


def _header(notes: Path | None) -> str:
    """The front matter as an input."""
    if notes is None:
        return ABSENT
    header = header_of(notes)
    return UNREADABLE if header is None else fingerprint(asdict(header))


def _declared_language(notes: Path | None, stored: Provenance | None) -> str:
    """The language that the notes declare. Notes that can't be read now leave it as it was."""
    if notes is None:
        return UNDECLARED
    header = header_of(notes)
    if header is not None:
        return header.language or UNDECLARED
    return (stored.inputs.get("language") if stored else None) or UNDECLARED


def _has(files: EpisodeFiles | None, kind: str) -> bool:
    return files is not None and getattr(files, kind) is not None
