"""Every knob, typed, in one model. Values come from `librarian.toml`; the environment overrides them.

`LIBRARIAN_EMBEDDINGS__MODEL=all-MiniLM-L6-v2` sets `model` in the section `[embeddings]`. What a command is told to change
(`librarian compare --set embeddings.model=all-MiniLM-L6-v2`) overrides both, for that command.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from librarian_pipeline.errors import UsageError

SETTINGS_FILE = "librarian.toml"
ENV_PREFIX = "LIBRARIAN_"
ENV_DELIMITER = "__"
# Names under the prefix that are not settings of an archive.
ANSWERS_KEY_VARIABLE = "LIBRARIAN_ANSWERS_KEY"
"""A secret: it is read from the environment alone, so that it never stands in a file of the archive."""
ENV_RESERVED = frozenset({"LIBRARIAN_HOME", "LIBRARIAN_CACHE", ANSWERS_KEY_VARIABLE})


Mode = Literal["bm25_raw", "bm25_stem", "dense", "hybrid", "hybrid_cc"]
"""Every retrieval mode, in the order of the score table; `retrieval/modes.py` says what each does."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WhisperSettings(_Section):
    """Speech to text."""

    model: str = Field("base", min_length=1, description="`base` or `tiny.en` (packaged), a folder, or a hub name")
    compute_type: Literal["int8", "int8_float16", "int8_float32", "float16", "float32", "default"] = "int8"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    language: str | None = Field(None, pattern=r"^[a-z]{2,3}$", description="overrides notes and detection")
    beam_size: int = Field(5, ge=1, le=20)


class AudioSettings(_Section):
    """Bounds on what is decoded, against files that are far more than they seem."""

    max_hours: float = Field(12, gt=0, description="audio beyond this is left out, and the episode is `partial`")
    max_decoded_gb: float = Field(32, gt=0, description="samples in the file's own format; beyond this, the same")
    settle_s: float = Field(2, ge=0, description="a file that changed within this time is looked at twice")


class TranscriptSettings(_Section):
    """Which source a transcript comes from where an episode has both, and how long audio is taken in pieces."""

    prefer: Literal["audio", "published"] = "audio"
    block_s: float = Field(600, ge=60, description="long audio is cut at silences into blocks of about this length")
    second_pass: bool = Field(True, description="decode flagged windows again, so that loops don't repeat")


class FeedSettings(_Section):
    """What `librarian import` brings in."""

    max_file_mb: float = Field(2_048, gt=0)
    max_episodes: int = Field(10_000, ge=1)
    timeout_s: float = Field(30, gt=0, description="without a byte for this long, a download counts as broken off")
    attempts: int = Field(3, ge=1, le=10)


class CheckSettings(_Section):
    """Thresholds of the asset checks, calibrated on 750 hours of a real archive's transcripts."""

    max_decode_loss_s: float = Field(2, ge=0, description="decoded against stated length; the larger of this and the next")
    max_decode_loss_share: float = Field(0.01, ge=0, le=1)
    min_speech_coverage: float = Field(0.95, ge=0, le=1, description="of the speech that voice activity detection finds")
    max_uncovered_speech_s: float = Field(15, gt=0)
    max_compression_ratio: float = Field(2.4, gt=1, description="good text reaches 2.22 at its 99.5th percentile")
    max_repeats: int = Field(5, ge=2, description="identical segments in a row")
    max_characters_per_s: float = Field(45, gt=0)
    max_segment_s: float = Field(30, gt=0)
    warn_hallucination_share: float = Field(0.005, ge=0, le=1, description="flagged of all speech; the archive had 0.0018")
    fail_hallucination_share: float = Field(0.02, ge=0, le=1)
    max_edition_gap_s: float = Field(30, gt=0, description="between the end of a published transcript and of the audio")
    max_passage_tokens: int = Field(512, ge=16, description="or fewer, where the embedding model reads fewer")


class ChunkSettings(_Section):
    """How segments and notes are cut into passages."""

    target_s: float = Field(45, gt=0, description="from this length on, a passage closes at the next good place")
    max_s: float = Field(60, gt=0, description="no passage is longer")
    max_words: int = Field(220, ge=20, description="nor has more words: they stand for 400 tokens of an embedding model")
    overlap_segments: int = Field(1, ge=0, le=10, description="segments repeated at the start of the next passage")
    notes_max_words: int = Field(180, ge=20, le=400, description="longer notes sections are split at sentences")

    @model_validator(mode="after")
    def _target_within_max(self) -> "ChunkSettings":
        if self.target_s > self.max_s:
            raise ValueError(f"target_s ({self.target_s:g}) must not be above max_s ({self.max_s:g})")
        return self


class NormalizerSettings(_Section):
    """What `bm25_stem` reduces words to."""

    name: Literal["simplemma", "snowball", "suffix", "none"] = "simplemma"


class Bm25Settings(_Section):
    """Okapi BM25 with the parameters and the idf floor of rank-bm25's `BM25Okapi`."""

    k1: float = Field(1.5, ge=0)
    b: float = Field(0.75, ge=0, le=1)
    epsilon: float = Field(0.25, ge=0)


class EmbeddingSettings(_Section):
    """The embedding model of the dense branch."""

    model: str = Field(
        "joint-e5-minilm",
        min_length=1,
        description="`joint-e5-minilm`, `multilingual-e5-small`, `all-MiniLM-L6-v2` (English), `char-ngram` (fallback), "
        "`st:` and a hub name or folder",
    )
    query_prompt: str | None = Field(None, description="for `st:` models; otherwise the model's own")
    passage_prompt: str | None = Field(None, description="for `st:` models; otherwise the model's own")


class FusionSettings(_Section):
    """How the hybrids put words and vectors together.

    `hybrid`, reciprocal rank fusion: c as in Cormack, Clarke and Buettcher (SIGIR 2009); depth as measured to settle the top
    5. `hybrid_cc`, convex combination: both values are what `python -m librarian_pipeline_tests.benchmarks.fusion` chose for
    the default embedding model on the dev queries of an archive of 55 episodes in English and Czech.
    """

    c: int = Field(60, ge=1)
    depth: int = Field(100, ge=1, le=10_000)
    dense_weight: float = Field(0.8, ge=0, le=1, description="`hybrid_cc`: of the dense branch; words have the rest")
    language_centring: float = Field(
        0.5, ge=0, le=1, description="`hybrid_cc`: how much of a model's liking for passages in the query's language goes"
    )


class RetrievalSettings(_Section):
    """What a search is unless it says otherwise."""

    default_mode: Mode = Field("hybrid_cc", description="the best on dev queries, see [fusion]")


class AnswerSettings(_Section):
    """When a question is answered, and by what; `librarian ask --calibrate` measures the first two on the gold set."""

    min_cosine: float | None = Field(
        None, ge=-1, le=1, description="of the nearest passage; by default what was calibrated for the embedding model"
    )
    min_coverage: float = Field(
        0.6, gt=0, le=1, description="of the query's weight in idf, by one passage: then no nearness is asked for"
    )
    base_url: str | None = Field(
        None, description="an OpenAI-compatible endpoint, up to `/v1`; passages are sent there, so none is set"
    )
    model: str | None = Field(None, min_length=1, description="which model to ask the endpoint for")
    timeout_s: float = Field(30, gt=0, le=600, description="for the endpoint's whole answer")

    # Of the whole section: an error about one key shows its value, and an address may hold a password.
    @model_validator(mode="after")
    def _endpoint_is_usable(self) -> "AnswerSettings":
        if self.base_url is None:
            return self
        try:
            parts = urlsplit(self.base_url)
        except ValueError:
            raise ValueError("base_url is no web address") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url must be an http or https address, such as http://127.0.0.1:8080/v1")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(f"base_url must hold no credentials or parameters: the key goes into {ANSWERS_KEY_VARIABLE}")
        return self


class EvaluationSettings(_Section):
    """Confidence intervals of the score table."""

    bootstrap_resamples: int = Field(2_000, ge=100, le=100_000)
    confidence: float = Field(0.95, gt=0.5, lt=1)


class GoldSettings(_Section):
    """What a gold set may look like, calibrated on 355 queries over 860 passages. Shares are of a query's weight in idf."""

    max_paraphrase_overlap: float = Field(
        0.35,
        ge=0,
        le=1,
        description="with its passage: 95 % of the paraphrases had at most 0.24, keyword queries 0.47 or more",
    )
    max_unanswerable_overlap: float = Field(
        0.6, ge=0, le=1, description="with any passage: no paraphrase had more than 0.56, nine of ten keyword queries had 1"
    )


class PublicationSettings(_Section):
    """What becomes of published snapshots."""

    keep_snapshots: int = Field(3, ge=2, description="the latest; `librarian publish --rollback` reaches as far back")


class GateSettings(_Section):
    """When an index is not as good as the one that was accepted, and is not to be published."""

    metric: Literal["MRR@10", "R@1", "R@3", "R@5"] = Field(
        "MRR@10", description="the primary metric: named beforehand, so that nobody picks the one that happens to pass"
    )
    alpha: float = Field(
        0.05, gt=0, lt=0.5, description="how often a change that does nothing but chance may fail a test: one in twenty"
    )
    max_drop: float = Field(
        0.08, gt=0, le=1, description="of the primary metric; a larger fall fails even where few queries can't prove it"
    )
    critical_within: int = Field(5, ge=1, le=100, description="a critical query must be met by then: what a search shows")
    floors: dict[str, dict[str, float]] = Field(
        {}, description="by mode and metric, for promises made to people; a loss far above a floor passes it, so none is set"
    )
    readme: str | None = Field(
        None, min_length=1, description="a file, seen from the archive, whose score table must be the measured one"
    )


class ServingSettings(_Section):
    """What agents get over MCP."""

    max_result_bytes: int = Field(
        48_000,
        ge=32_000,
        description="of a result's text and structure together: at two bytes or more a token, below the 25,000 that clients"
        " take",
    )
    audio_link: str | None = Field(
        None,
        pattern=r"^https?://\S*\{episode_id\}\S*$",
        description="where an episode is heard, such as `https://example.org/{episode_id}.mp3#t={second}`",
    )


class DagsterSettings(_Section):
    """How Dagster runs what its UI and its daemon start; `librarian run` takes one step after the other."""

    executor: Literal["in_process", "multiprocess"] = "in_process"
    max_concurrent_runs: int = Field(2, ge=1, le=64)
    sensor_interval_s: int = Field(30, ge=1, description="between two looks at the archive's files")
    reeval_at: str = Field(
        "03:00", pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", description="when, each day, the index is measured anew (UTC)"
    )


class AzureSettings(_Section):
    """The same retrieval on Azure, for those who configure it: what it may cost, and how it is talked to.

    Keys are no settings: see `azure/account.py`.
    """

    owner: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]{1,64}$",
        description="written into the index, and no other's index is touched; by default, a digest of the archive's folder",
    )
    dimensions: int = Field(512, ge=2, le=4_096, description="of the vectors: fewer take less of the service's storage")
    max_documents: int = Field(10_000, ge=1, description="in the index; beyond this, nothing is sent")
    max_tokens: int = Field(2_000_000, ge=1, description="embedded in one run, by an estimate on the high side, and in fact")
    price_per_1000_tokens: float | None = Field(
        None, ge=0, description="of the embedding deployment, in any currency: without it no cost is told"
    )
    max_cost: float | None = Field(None, gt=0, description="of one run, in the same currency")
    embed_batch: int = Field(64, ge=1, le=2_048, description="texts in a request for embeddings")
    upload_batch: int = Field(64, ge=1, le=1_000, description="documents in an upload; the service takes 1,000 or 16 MB")
    timeout_s: float = Field(30, gt=0, le=600, description="for an answer, once a connection is there")
    retries: int = Field(3, ge=0, le=10, description="of a request that met 429, 5xx or silence")
    max_wait_s: float = Field(60, gt=0, le=120, description="what Retry-After may ask for; of Azure OpenAI, up to 120")
    search_api_version: str = Field("2026-04-01", pattern=r"^\d{4}-\d{2}-\d{2}(-preview)?$")
    openai_api_version: str = Field("2024-10-21", pattern=r"^\d{4}-\d{2}-\d{2}(-preview)?$")

    @model_validator(mode="after")
    def _limit_has_a_price(self) -> "AzureSettings":
        if self.max_cost is not None and self.price_per_1000_tokens is None:
            raise ValueError("max_cost needs price_per_1000_tokens")
        return self


class Settings(BaseSettings):
    """All sections. Use `load_settings`: it reads the file, and turns what is wrong into one clear line."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_DELIMITER,
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    whisper: WhisperSettings = WhisperSettings()
    audio: AudioSettings = AudioSettings()
    transcripts: TranscriptSettings = TranscriptSettings()
    feeds: FeedSettings = FeedSettings()
    checks: CheckSettings = CheckSettings()
    chunks: ChunkSettings = ChunkSettings()
    normalizer: NormalizerSettings = NormalizerSettings()
    bm25: Bm25Settings = Bm25Settings()
    embeddings: EmbeddingSettings = EmbeddingSettings()
    fusion: FusionSettings = FusionSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    answers: AnswerSettings = AnswerSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    gold: GoldSettings = GoldSettings()
    publication: PublicationSettings = PublicationSettings()
    gates: GateSettings = GateSettings()
    serving: ServingSettings = ServingSettings()
    dagster: DagsterSettings = DagsterSettings()
    azure: AzureSettings = AzureSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (env_settings, init_settings)


def load_settings(home: Path) -> Settings:
    """The settings of the archive at `home`: its `librarian.toml`, if there is one, overridden by the environment.

    Raises `UsageError`, naming the file, the key and the nearest known key or the allowed values.
    """
    path = home / SETTINGS_FILE
    _refuse_unknown_environment()
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig")) if path.exists() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML ({error})", "mend that line") from error
    except OSError as error:
        raise UsageError(f"{path} can't be read ({error.strerror})", "make it a file that you may read") from error
    try:
        return Settings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        where = "the environment" if _is_in_environment(first["loc"]) else str(path)
        raise UsageError(*_explain(first, where)) from error
    except SettingsError as error:
        example = f"{ENV_PREFIX}EMBEDDINGS{ENV_DELIMITER}MODEL"
        raise UsageError(f"the environment sets a whole section ({error})", f"set single keys, such as {example}") from error


def change_settings(settings: Settings, changes: Mapping[str, Any], where: str) -> Settings:
    """The settings with other values for some keys (`section.key`), whatever the file and the environment say of these.

    Raises `UsageError` like `load_settings`; `where` names the changes in it.
    """
    by_section: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        section, _, name = key.partition(".")
        if key not in known_keys():
            raise UsageError(f"{where} has the unknown key {key}", _nearest(key, known_keys()))
        by_section.setdefault(section, {})[name] = value
    changed = {}
    for section, values in by_section.items():
        before: BaseModel = getattr(settings, section)
        try:
            changed[section] = type(before).model_validate({**before.model_dump(), **values})
        except ValidationError as error:
            first = error.errors()[0]
            raise UsageError(*_explain({**first, "loc": (section, *first["loc"])}, where)) from error
    return settings.model_copy(update=changed)


def known_keys() -> list[str]:
    """Every setting as `section.key`."""
    return [f"{section}.{key}" for section, model in _sections().items() for key in model.model_fields]


def _sections() -> dict[str, type[BaseModel]]:
    return {name: type(field.default) for name, field in Settings.model_fields.items()}


def _refuse_unknown_environment() -> None:
    sections = {f"{ENV_PREFIX}{section.upper()}" for section in _sections()}
    for name in os.environ:
        if not name.startswith(ENV_PREFIX) or name in ENV_RESERVED:
            continue
        if name.split(ENV_DELIMITER)[0] not in sections:
            known = [f"{ENV_PREFIX}{key.upper().replace('.', ENV_DELIMITER)}" for key in known_keys()]
            raise UsageError(f"the environment sets the unknown {name}", _nearest(name, known))


def _explain(first: Mapping[str, Any], where: str) -> tuple[str, str]:
    """What is wrong in `where`, as (message, fix)."""
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        candidates = known_keys() if "." in key else list(_sections())
        return f"{where} has the unknown key {key}", _nearest(key, candidates)
    value = first["input"]
    told = f"{where}: {key} = {value!r}" if isinstance(value, str | int | float | bool) else f"{where}: {key}"
    return told, first["msg"].removeprefix("Value error, ")


def _is_in_environment(location: tuple[int | str, ...]) -> bool:
    """Whether a variable sets this key, which then overrides the file, or something of this section."""
    name = ENV_PREFIX + ENV_DELIMITER.join(str(part) for part in location).upper()
    return any(f"{variable.upper()}{ENV_DELIMITER}".startswith(f"{name}{ENV_DELIMITER}") for variable in os.environ)


def _nearest(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
    return f"did you mean {close[0]}?"
