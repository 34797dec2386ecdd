"""What Dagster's users see of the gold set's hygiene and of the history of scores."""

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from librarian_pipeline.checks import GATES
from librarian_pipeline.definitions import definitions_for
from librarian_pipeline.defs.instance import COMMAND_TAG, open_instance, trigger_of
from librarian_pipeline.defs.resources import ArchiveResource
from librarian_pipeline.derivation.updating import bring_up_to_date, in_this_process
from librarian_pipeline.evaluation.history import read_history, record_measurement
from librarian_pipeline.lineage.planning import Planner, Scope
from librarian_pipeline.workspace import Workspace
from librarian_pipeline_tests.pipeline.small_archive import SENTENCES, small_archive
from librarian_pipeline_tests.silent import Silent


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = small_archive(tmp_path_factory.mktemp("checks") / "home")
    shutil.rmtree(home / "audio")
    workspace = Workspace.open(home)
    bring_up_to_date(workspace, Planner(Scope()), Silent(), in_this_process(workspace, Silent()))
    return home


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "home"))


@pytest.fixture
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    workspace = Workspace.open(home)
    with open_instance(workspace.archive.dagster_home_dir, workspace.settings.dagster) as instance:
        yield instance


def materialize(home: Path, instance: dg.DagsterInstance, *assets: str, **tags: str) -> dg.ExecuteInProcessResult:
    job = definitions_for(home).resolve_implicit_global_asset_job_def()
    selection = [dg.AssetKey(asset) for asset in assets]
    return job.execute_in_process(instance=instance, asset_selection=selection, tags=tags, raise_on_error=False)


def checks(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {check.check_name: check for check in result.get_asset_check_evaluations()}


def append_queries(home: Path, *rows: dict[str, Any]) -> None:
    path = home / "gold" / "gold_set.json"
    queries = json.loads(path.read_text())
    path.write_text(json.dumps([*queries, *({**queries[0], **row} for row in rows)]))


def triggers(home: Path) -> list[str]:
    rows = read_history(Workspace.open(home).warehouse).to_pylist()
    return list({row["measurement"]: row["trigger"] for row in rows}.values())


def test_a_good_gold_set_passes_every_check(home: Path, instance: dg.DagsterInstance) -> None:
    found = checks(materialize(home, instance, "gold_set", "eval_scores"))
    of_the_gold_set = {"no_duplicate_queries", "splits_by_episode", "gold_labels_resolve", "paraphrases_avoid_words"}
    assert {*of_the_gold_set, "unanswerable_unmatched", "figures_reproduce", *GATES} == set(found)
    assert [name for name, check in found.items() if not check.passed] == []


def test_offenders_are_counted_and_shown_and_block_nothing(home: Path, instance: dg.DagsterInstance) -> None:
    append_queries(
        home,
        {"id": "twice", "query": "Who counted the GRAIN?"},
        {"id": "leak", "query": "whose bags?", "split": "test"},
        {"id": "wordy", "query": SENTENCES[0]},
        {"id": "held", "query": SENTENCES[2], "kind": "unanswerable", "relevant": []},
    )
    result = materialize(home, instance, "gold_set", "eval_scores")
    assert result.success
    found = checks(result)
    error, warning = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN
    expected = {
        "no_duplicate_queries": ("gold_set", error, "twice"),
        "splits_by_episode": ("gold_set", warning, "leak"),
        "paraphrases_avoid_words": ("eval_scores", warning, "wordy"),
        "unanswerable_unmatched": ("eval_scores", warning, "held"),
    }
    for name, (asset, severity, query_id) in expected.items():
        check = found[name]
        assert not check.passed, name
        assert (check.asset_key.to_user_string(), check.severity) == (asset, severity)
        assert check.metadata["offenders"].value == 1
        assert query_id in str(check.metadata["first"].value)


def test_one_assets_checks_run_without_the_others(home: Path, instance: dg.DagsterInstance) -> None:
    assert set(checks(materialize(home, instance, "gold_set"))) == {"no_duplicate_queries", "splits_by_episode"}


def test_every_measurement_is_recorded_with_what_started_it(home: Path, instance: dg.DagsterInstance) -> None:
    before = triggers(home)
    materialize(home, instance, "eval_scores")
    materialize(home, instance, "eval_scores", **{"dagster/schedule_name": "nightly_reeval"})
    assert triggers(home) == [*before, "by hand", "nightly_reeval"]


def test_a_measurement_names_the_stored_scores(home: Path, instance: dg.DagsterInstance) -> None:
    materialize(home, instance, "eval_scores")
    warehouse = Workspace.open(home).warehouse
    record = warehouse.committed("eval_scores")
    assert record is not None
    last = read_history(warehouse).to_pylist()[-1]
    assert last["data_version"] == record.version


@pytest.mark.parametrize(
    ("tags", "trigger"),
    [
        (COMMAND_TAG, "run"),
        ({"librarian/trigger": "publication", "dagster/sensor_name": "reeval_after_publication"}, "publication"),
        ({"dagster/sensor_name": "episodes"}, "episodes"),
        ({}, "by hand"),
    ],
)
def test_a_runs_tags_tell_what_started_it(tags: dict[str, str], trigger: str) -> None:
    assert trigger_of(tags) == trigger


def test_the_history_is_drawn_in_the_metadata(home: Path, instance: dg.DagsterInstance) -> None:
    [materialization] = materialize(home, instance, "eval_scores").asset_materializations_for_node("eval_scores")
    text = str(materialization.metadata["MRR over time"].value)
    drawn = base64.b64decode(text.partition("base64,")[2].removesuffix(")")).decode()
    assert text.startswith("![MRR of each mode over time](data:image/svg+xml;base64,")
    assert "2 measurements" in drawn


def test_other_figures_of_the_same_raise_an_alert(home: Path, instance: dg.DagsterInstance) -> None:
    warehouse = Workspace.open(home).warehouse
    record = warehouse.committed("eval_scores")
    assert record is not None
    scores = warehouse.read("eval_scores").replace_schema_metadata()
    forged = scores.set_column(scores.schema.get_field_index("value"), "value", [[0.987] * scores.num_rows])
    record_measurement(
        warehouse, forged, recipe=record.recipe, inputs=record.inputs, data_version="forged", trigger="by hand"
    )
    check = checks(materialize(home, instance, "eval_scores"))["figures_reproduce"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "0.9870" in str(check.metadata["figures"].value)


def tick(home: Path, instance: dg.DagsterInstance, cursor: str | None) -> dg.SensorResult:
    sensor = definitions_for(home).resolve_sensor_def("reeval_after_publication")
    resources = {"archive": ArchiveResource(home=str(home))}
    with dg.build_sensor_context(instance, cursor=cursor, resources=resources) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    return result


def test_each_publication_is_followed_by_one_measurement(home: Path, instance: dg.DagsterInstance) -> None:
    shutil.rmtree(home / "published")
    assert not tick(home, instance, None).run_requests
    (home / "published").mkdir()
    (home / "published" / "CURRENT").write_text(f"{'a' * 16}\n")
    first = tick(home, instance, None)
    [request] = first.run_requests or []
    assert [key.to_user_string() for key in request.asset_selection or ()] == ["eval_scores"]
    materialize(home, instance, "eval_scores", **request.tags)
    assert triggers(home)[-1] == "publication"
    assert not tick(home, instance, first.cursor).run_requests
    (home / "published" / "CURRENT").write_text(f"{'b' * 16}\n")
    assert tick(home, instance, first.cursor).run_requests
