import importlib.metadata
import json
from pathlib import Path

import pytest

from librarian_pipeline.archive.layout import EpisodeFiles
from librarian_pipeline.lineage import recipes
from librarian_pipeline.lineage.graph import NODES
from librarian_pipeline.lineage.recipes import CODE, recipe, transcript_source
from librarian_pipeline.settings import Settings, known_keys
from librarian_pipeline.text import lemmas

AUDIO, NOTES, PUBLISHED = Path("audio/ep.mp3"), Path("notes/ep.md"), Path("transcripts/ep.vtt")
EPISODES = {
    "with audio": EpisodeFiles("a", AUDIO, NOTES, None),
    "published": EpisodeFiles("p", None, NOTES, PUBLISHED),
    "with both": EpisodeFiles("b", AUDIO, NOTES, PUBLISHED),
    "of notes": EpisodeFiles("n", None, NOTES, None),
}
SPEECH = {"transcripts with audio", "transcripts with both"}
BM25 = {"bm25_raw_index", "bm25_stem_index"}
SEARCH = {"eval_scores", "published_index"}


# Setting -> another value, and the recipes that this changes.
CHANGES: dict[str, tuple[object, set[str]]] = {
    "whisper.model": ("tiny.en", SPEECH),
    "whisper.compute_type": ("float32", SPEECH),
    "whisper.device": ("cpu", SPEECH),
    "whisper.language": ("cs", SPEECH),
    "whisper.beam_size": (1, SPEECH),
    "audio.max_hours": (1, {"audio"} | SPEECH),
    "audio.max_decoded_gb": (1, {"audio"} | SPEECH),
    "audio.settle_s": (0, set()),
    "transcripts.prefer": ("published", {"transcripts with both"}),
    "transcripts.block_s": (300, SPEECH),
    "transcripts.second_pass": (False, SPEECH),
    "feeds.max_file_mb": (10, set()),
    "feeds.max_episodes": (10, set()),
    "feeds.timeout_s": (10, set()),
    "feeds.attempts": (1, set()),
    "checks.max_decode_loss_s": (1, {"episodes"}),
    "checks.max_decode_loss_share": (0.1, {"episodes"}),
    "checks.min_speech_coverage": (0.9, {"episodes"}),
    "checks.max_uncovered_speech_s": (10, {"episodes"}),
    "checks.max_compression_ratio": (2, {"episodes"} | SPEECH),
    "checks.max_repeats": (3, {"episodes"} | SPEECH),
    "checks.max_characters_per_s": (40, {"episodes"} | SPEECH),
    "checks.max_segment_s": (20, {"episodes"} | SPEECH),
    "checks.warn_hallucination_share": (0.001, {"episodes"}),
    "checks.fail_hallucination_share": (0.01, {"episodes"}),
    "checks.max_edition_gap_s": (10, {"episodes"}),
    "checks.max_passage_tokens": (256, {"episodes"}),
    "chunks.target_s": (30, {"chunks"}),
    "chunks.max_s": (90, {"chunks"}),
    "chunks.max_words": (100, {"chunks"}),
    "chunks.overlap_segments": (2, {"chunks"}),
    "chunks.notes_max_words": (100, {"chunks"}),
    "normalizer.name": ("snowball", {"bm25_stem_index"}),
    "bm25.k1": (1.2, BM25),
    "bm25.b": (0.5, BM25),
    "bm25.epsilon": (0.1, BM25),
    "embeddings.model": ("char-ngram", {"embeddings", "vector_index", "published_index"}),
    "embeddings.query_prompt": ("query: ", SEARCH),
    "embeddings.passage_prompt": ("passage: ", {"embeddings", "vector_index", "published_index"}),
    "fusion.c": (10, SEARCH),
    "fusion.depth": (50, SEARCH),
    "fusion.dense_weight": (0.7, SEARCH),
    "fusion.language_centring": (1, SEARCH),
    "retrieval.default_mode": ("dense", SEARCH),
    "answers.min_cosine": (0.8, set()),
    "answers.min_coverage": (0.7, set()),
    "answers.base_url": ("http://127.0.0.1:8080/v1", set()),
    "answers.model": ("a-model", set()),
    "answers.timeout_s": (5, set()),
    "serving.max_result_bytes": (40_000, set()),
    "serving.audio_link": ("https://example.org/{episode_id}.mp3", set()),
    # Azure's index and scores are no assets of the graph: they stand apart from publication.
    "azure.owner": ("somebody", set()),
    "azure.dimensions": (256, set()),
    "azure.max_documents": (5_000, set()),
    "azure.max_tokens": (1_000, set()),
    "azure.price_per_1000_tokens": (0.01, set()),
    "azure.max_cost": (1.0, set()),
    "azure.embed_batch": (8, set()),
    "azure.upload_batch": (8, set()),
    "azure.timeout_s": (5, set()),
    "azure.retries": (1, set()),
    "azure.max_wait_s": (5, set()),
    "azure.search_api_version": ("2025-09-01", set()),
    "azure.openai_api_version": ("2025-04-01", set()),
    "evaluation.bootstrap_resamples": (500, {"eval_scores"}),
    "evaluation.confidence": (0.9, {"eval_scores"}),
    "gold.max_paraphrase_overlap": (0.2, set()),
    "gold.max_unanswerable_overlap": (0.5, set()),
    "publication.keep_snapshots": (5, set()),
    "gates.metric": ("R@5", {"eval_scores"}),
    "gates.alpha": (0.01, {"eval_scores"}),
    "gates.max_drop": (0.05, {"eval_scores"}),
    "gates.critical_within": (3, {"eval_scores"}),
    "gates.floors": ({"hybrid": {"R@5": 0.5}}, {"eval_scores"}),
    "gates.readme": ("../README.md", {"eval_scores"}),
    "dagster.executor": ("multiprocess", set()),
    "dagster.max_concurrent_runs": (3, set()),
    "dagster.sensor_interval_s": (5, set()),
    "dagster.reeval_at": ("04:30", set()),
}
PACKAGES = {
    "av": {"audio"} | SPEECH,
    "py3langid": {"notes", "transcripts published"},
    "faster-whisper": SPEECH,
    "ctranslate2": SPEECH,
    "simplemma": {"bm25_stem_index"},
    "snowballstemmer": set(),
    "mutagen": {"episodes", "notes"},
}

NEEDED_BESIDE: dict[str, dict[str, object]] = {"azure.max_cost": {"price_per_1000_tokens": 0.01}}
"""Settings that another one asks for."""


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("LIBRARIAN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model in a folder: the only kind whose prompts can be set."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"weights")
    return f"st:{tmp_path / 'model'}"


def settings_with(model: str, key: str = "", value: object = None) -> Settings:
    values: dict[str, dict[str, object]] = {"embeddings": {"model": model}}
    if key:
        section, name = key.split(".")
        values.setdefault(section, {}).update({**NEEDED_BESIDE.get(key, {}), name: value})
    return Settings(**values)


def all_recipes(settings: Settings) -> dict[str, object]:
    """The recipe of every asset; that of `transcripts` for an episode of each kind."""
    found = {asset: recipe(asset, settings, EPISODES["with audio"]) for asset in NODES if asset != "transcripts"}
    return {**found, **{f"transcripts {kind}": recipe("transcripts", settings, files) for kind, files in EPISODES.items()}}


def changed(before: dict[str, object], after: dict[str, object]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def test_the_table_of_this_test_has_a_row_for_every_setting():
    assert set(CHANGES) == set(known_keys())


@pytest.mark.parametrize("key", CHANGES)
def test_a_setting_changes_the_recipes_of_exactly_the_assets_that_it_can_change(key, model):
    value, expected = CHANGES[key]
    assert changed(all_recipes(settings_with(model)), all_recipes(settings_with(model, key, value))) == expected


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_of_another_version_changes_the_recipes_of_exactly_the_assets_that_use_it(package, model, monkeypatch):
    before = all_recipes(settings_with(model))
    original = importlib.metadata.version
    for module in (importlib.metadata, recipes, lemmas):
        monkeypatch.setattr(module, "version", lambda name: "another" if name == package else original(name))
    assert changed(before, all_recipes(settings_with(model))) == PACKAGES[package]


def test_what_counts_as_another_edition_matters_only_where_a_published_transcript_is_preferred_to_audio():
    settings = Settings(transcripts={"prefer": "published"}, checks={"max_edition_gap_s": 10})
    has_gap = {kind for kind, files in EPISODES.items() if "max_edition_gap_s" in recipe("transcripts", settings, files)}
    assert has_gap == {"with both"}


def test_the_reader_of_tags_is_in_the_recipe_of_notes_only_where_there_is_audio():
    assert "mutagen" not in recipe("notes", Settings(), EPISODES["of notes"])
    assert "mutagen" in recipe("notes", Settings(), EPISODES["with audio"])
    assert "mutagen" in recipe("notes", Settings(), EpisodeFiles("t", AUDIO, None, None))


def test_the_stemmer_is_in_the_recipe_only_while_it_is_in_use(model):
    assert "snowballstemmer" in recipe("bm25_stem_index", settings_with(model, "normalizer.name", "snowball"))
    assert "simplemma" not in recipe("bm25_stem_index", settings_with(model, "normalizer.name", "snowball"))


def test_other_weights_in_the_models_folder_change_the_recipe_of_embeddings(model):
    before = recipe("embeddings", settings_with(model))
    (Path(model.removeprefix("st:")) / "weights").write_bytes(b"other weights")
    assert recipe("embeddings", settings_with(model)) != before


@pytest.mark.parametrize("asset", NODES)
def test_a_new_version_of_an_assets_code_changes_its_recipe(asset, model, monkeypatch):
    before = recipe(asset, settings_with(model), EPISODES["with both"])
    monkeypatch.setitem(CODE, asset, CODE[asset] + 1)
    assert recipe(asset, settings_with(model), EPISODES["with both"]) != before


def test_every_recipe_comes_back_from_json_as_it_was(model):
    found = all_recipes(settings_with(model))
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("kind", "prefer", "source"),
    [
        ("with audio", "audio", "audio"),
        ("with audio", "published", "audio"),
        ("published", "audio", "published"),
        ("with both", "audio", "audio"),
        ("with both", "published", "published"),
        ("of notes", "audio", "none"),
    ],
)
def test_a_transcript_comes_from_the_audio_unless_there_is_none_or_settings_prefer_the_published_one(kind, prefer, source):
    settings = Settings(transcripts={"prefer": prefer})
    assert transcript_source(EPISODES[kind], settings) == source
