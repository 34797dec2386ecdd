"""Assets as Dagster runs them: what a materialization says, and what a failure leaves."""

import json
import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from mutagen.id3 import CHAP, ID3, TIT2

from librarian_pipeline.checks import GATES
from librarian_pipeline.definitions import definitions_for
from librarian_pipeline.defs.partitions import register_episodes
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.conftest import copy_sources
from librarian_pipeline_tests.speech.sounds import SPOKEN

EPISODES = {"ep06", "ep07", "ep10"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = copy_sources(tmp_path / "home", only=tuple(EPISODES))
    (home / "librarian.toml").write_text('[embeddings]\nmodel = "char-ngram"\n')
    gold = home / "gold" / "gold_set.json"
    queries = json.loads(gold.read_text(encoding="utf-8"))
    asked = [query for query in queries if all(span["episode"] in EPISODES for span in query["relevant"])]
    gold.write_text(json.dumps(asked), encoding="utf-8")
    return home


@pytest.fixture
def instance(home: Path) -> Any:
    with dg.instance_for_test() as instance:
        register_episodes(instance, EPISODES)
        yield instance


def materialize(
    home: Path, instance: dg.DagsterInstance, assets: list[str], episode: str | None = None
) -> dg.ExecuteInProcessResult:
    job = definitions_for(home).resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=instance,
        partition_key=episode,
        asset_selection=[dg.AssetKey(asset) for asset in assets],
        raise_on_error=False,
    )


def materialization(result: dg.ExecuteInProcessResult, asset: str) -> dg.AssetMaterialization:
    [event] = [
        event.step_materialization_data.materialization
        for event in result.get_asset_materialization_events()
        if event.asset_key == dg.AssetKey(asset)
    ]
    return event


def derive_all(home: Path, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    for episode in sorted(EPISODES):
        assert materialize(home, instance, ["audio", "notes", "transcripts", "chunks", "embeddings"], episode).success
    return materialize(
        home,
        instance,
        ["bm25_raw_index", "bm25_stem_index", "vector_index", "gold_set", "eval_scores", "episodes"],
    )


def test_a_materialization_has_the_content_hash_as_its_data_version(home: Path, instance: dg.DagsterInstance) -> None:
    result = materialize(home, instance, ["notes"], "ep06")
    record = Workspace.open(home).warehouse.committed("notes", "ep06")
    assert record is not None
    assert materialization(result, "notes").tags["dagster/data_version"] == record.version


def test_a_materialization_tells_its_rows_its_columns_and_its_recipe(home: Path, instance: dg.DagsterInstance) -> None:
    metadata = materialization(materialize(home, instance, ["notes"], "ep06"), "notes").metadata
    rows = Workspace.open(home).warehouse.read("notes", "ep06").num_rows
    assert metadata["dagster/row_count"].value == rows
    assert metadata["recipe_fingerprint"].value
    assert "heading" in {column.name for column in metadata["dagster/column_schema"].value.columns}


def test_the_whole_graph_materializes_and_shows_the_score_table(home: Path, instance: dg.DagsterInstance) -> None:
    result = derive_all(home, instance)
    assert result.success
    table = materialization(result, "eval_scores").metadata["score table"].value
    assert "| Retrieval mode | R@1 | R@3 | R@5 | MRR |" in table
    assert "a fallback without weights" in table


def test_what_is_published_is_named_and_a_refusal_says_why(home: Path, instance: dg.DagsterInstance) -> None:
    derive_all(home, instance)
    result = materialize(home, instance, ["published_index"])
    assert materialization(result, "published_index").metadata["snapshot_id"].value == served(home)
    # The indexes are others now, and nobody has measured them.
    with (home / "librarian.toml").open("a") as settings:
        settings.write('[normalizer]\nname = "none"\n')
    before = served(home)
    assert materialize(home, instance, ["bm25_stem_index"]).success
    refused = materialize(home, instance, ["published_index"])
    [failure] = refused.filter_events(lambda event: event.is_step_failure)
    said = failure.step_failure_data.user_failure_data.description
    assert "bm25_stem_index changed since the index was measured" in said
    assert served(home) == before


def served(home: Path) -> str | None:
    return Workspace.open(home).snapshots.current_id()


def test_passages_are_shown_with_their_citations(home: Path, instance: dg.DagsterInstance) -> None:
    result = materialize(home, instance, ["notes", "audio", "transcripts", "chunks"], "ep07")
    sample = materialization(result, "chunks").metadata["sample"].value
    assert "Ep. ep07 @ 00:0" in sample


def test_what_became_of_a_published_transcripts_cues_is_shown(home: Path, instance: dg.DagsterInstance) -> None:
    (home / "transcripts" / "ep06.vtt").write_text(
        "WEBVTT\n\n00:01.000 --> 00:02.000\nTea.\n\n00:02.000 --> 00:03.000\n[music]\n"
    )
    metadata = materialization(materialize(home, instance, ["audio", "transcripts"], "ep06"), "transcripts").metadata
    counts = {name: metadata[f"cues_{name}"].value for name in ("read", "kept", "rejected_non_speech")}
    assert counts == {"read": 2, "kept": 1, "rejected_non_speech": 1}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (None, [("The kettle", 5_000, "")]),
        ("# Tea\n\nWords without a time.\n", [("Tea", None, "Words without a time."), ("The kettle", 5_000, "")]),
        ("# Tea\n\n[00:07] Words.\n", [("Tea", 7_000, "Words.")]),
    ],
)
def test_where_no_notes_have_a_time_the_audios_chapters_are_sections(
    home: Path, instance: dg.DagsterInstance, written: str | None, expected: list[tuple[str, int | None, str]]
) -> None:
    (home / "notes" / "ep06.md").unlink()
    if written is not None:
        (home / "notes" / "ep06.md").write_text(written)
    chapter = CHAP(element_id="a", start_time=5_000, end_time=9_000, sub_frames=[TIT2(encoding=3, text=["The kettle"])])
    tags = ID3()
    tags.add(chapter)
    tags.save(home / "audio" / "ep06.mp3")
    assert materialize(home, instance, ["notes"], "ep06").success
    rows = Workspace.open(home).warehouse.read("notes", "ep06").to_pylist()
    assert [(row["heading"], row["start_ms"], row["text"]) for row in rows] == expected
    assert [row["section_idx"] for row in rows] == list(range(len(rows)))


def test_a_transcript_tells_how_it_was_heard(home: Path, instance: dg.DagsterInstance) -> None:
    shutil.copy2(SPOKEN, home / "audio" / "ep20.opus")
    (home / "librarian.toml").write_text('[whisper]\nmodel = "tiny.en"\n')
    register_episodes(instance, {*EPISODES, "ep20"})
    metadata = materialization(materialize(home, instance, ["audio", "transcripts"], "ep20"), "transcripts").metadata
    assert metadata["source"].value == "audio"
    assert (metadata["language"].value, metadata["language source"].value) == ("en", "the model's only one")
    assert metadata["speech covered"].value > 0.95
    assert metadata["speech, s"].value > 1
    assert (metadata["windows decoded twice"].value, metadata["excluded segments"].value) == (0, 0)
    warehouse = Workspace.open(home).warehouse
    assert warehouse.read("speech_spans", "ep20").num_rows >= 1
    assert warehouse.committed("transcripts", "ep20") is not None


def test_vectors_are_shown_with_model_digest_and_dimensions(home: Path, instance: dg.DagsterInstance) -> None:
    result = materialize(home, instance, ["notes", "audio", "transcripts", "chunks", "embeddings"], "ep07")
    metadata = materialization(result, "embeddings").metadata
    assert metadata["dimensions"].value == 512
    assert metadata["model"].value.startswith("char-ngram (no weights, ")
    assert len(metadata["digest"].value) == 64


def test_every_gate_is_a_check_and_the_scores_show_them_all(home: Path, instance: dg.DagsterInstance) -> None:
    result = derive_all(home, instance)
    checks = {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}
    assert set(GATES) <= set(checks)
    shown = materialization(result, "eval_scores").metadata["gates"].value
    assert all(f"| {gate} ".replace("_", "\\_") in shown for gate in GATES)


def test_a_gate_that_fails_blocks_and_names_the_labels_that_are_lost(home: Path, instance: dg.DagsterInstance) -> None:
    derive_all(home, instance)
    gold = home / "gold" / "gold_set.json"
    gold.write_text(gold.read_text().replace('"episode": "ep06"', '"episode": "ep66"'))
    result = materialize(home, instance, ["gold_set", "eval_scores"])
    check = next(check for check in result.get_asset_check_evaluations() if check.check_name == "labels")
    assert (check.passed, check.severity, check.blocking) == (False, dg.AssetCheckSeverity.ERROR, True)
    assert "ep66" in check.metadata["details"].value
    assert not result.success


def test_a_step_that_cant_read_its_source_says_so_in_one_line(home: Path, instance: dg.DagsterInstance) -> None:
    (home / "notes" / "ep06.md").write_text("---\ntitle: [unclosed\n---\n")
    result = materialize(home, instance, ["notes"], "ep06")
    [failure] = result.filter_events(lambda event: event.is_step_failure)
    failed = failure.step_failure_data.user_failure_data
    assert failed is not None
    assert "ep06.md" in str(failed.description)
    assert "\n" not in str(failed.description)


def test_a_partition_whose_episode_is_gone_fails_with_a_clear_line(home: Path, instance: dg.DagsterInstance) -> None:
    (home / "transcripts" / "ep07.srt").unlink()
    result = materialize(home, instance, ["notes"], "ep07")
    [failure] = result.filter_events(lambda event: event.is_step_failure)
    assert "no files of an episode 'ep07'" in str(failure.step_failure_data.user_failure_data)


def test_a_step_whose_upstream_was_never_derived_fails_and_says_what_to_derive_first(
    home: Path, instance: dg.DagsterInstance
) -> None:
    for asset, episode, first in [("chunks", "ep07", "transcripts[ep07]"), ("vector_index", None, "embeddings[ep06]")]:
        result = materialize(home, instance, [asset], episode)
        [failure] = result.filter_events(lambda event: event.is_step_failure)
        assert f"{first} was never derived" in str(failure.step_failure_data.user_failure_data)


def test_markup_in_an_archive_is_text_in_the_ui(home: Path, instance: dg.DagsterInstance) -> None:
    (home / "notes" / "ep06.md").write_text("## Links\n\nA `pipe | and` a \\<script\\> tag.\n")
    result = materialize(home, instance, ["notes"], "ep06")
    sample = materialization(result, "notes").metadata["sample"].value
    assert "\\<script\\>" in sample
    assert "\\|" in sample
