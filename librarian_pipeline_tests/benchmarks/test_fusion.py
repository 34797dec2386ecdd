"""That the tuning chooses what it says, and from the dev split alone; what comes of it is for the table to say."""

from dataclasses import replace
from pathlib import Path

import pytest

from librarian_pipeline.evaluation.gold import GoldQuery, gold_table
from librarian_pipeline.lineage.recipes import recipe
from librarian_pipeline.settings import EmbeddingSettings, EvaluationSettings, FusionSettings, Settings
from librarian_pipeline_tests.benchmarks.fusion import SHOWN, Backend, open_backend, report, tune, tuned_on_dev
from librarian_pipeline_tests.retrieval.samples import section, warehouse_at, write_episode, write_indexes

SETTINGS = Settings(embeddings=EmbeddingSettings(model="char-ngram"))
TOPICS = ["lighthouse lamps", "rye bread", "church bells", "slow electrons", "old jumpers", "river barges"]


def values(**by_query: float) -> dict[str, dict[str, float]]:
    return dict.fromkeys(SHOWN, by_query)


LOW, HIGH = FusionSettings(dense_weight=0.2), FusionSettings(dense_weight=0.8)


def test_the_candidate_with_the_best_mean_is_chosen_and_the_first_of_equals() -> None:
    episodes = {"q1": "ep01", "q2": "ep02"}
    assert tune({LOW: values(q1=1, q2=0), HIGH: values(q1=1, q2=0.5)}, episodes).fusion == HIGH
    assert tune({LOW: values(q1=1, q2=0), HIGH: values(q1=0, q2=1)}, episodes).fusion == LOW


def test_a_query_has_no_part_in_the_choice_that_it_is_measured_by() -> None:
    # Each candidate is good for one episode alone: whoever is chosen without an episode fails on it.
    found = tune({LOW: values(q1=1, q2=0), HIGH: values(q1=0, q2=1)}, {"q1": "ep01", "q2": "ep02"})
    assert found.held_out == pytest.approx(dict.fromkeys(SHOWN, 0.0))


def test_queries_of_one_episode_are_left_out_together() -> None:
    found = tune({LOW: values(q1=1, q2=1, q3=0), HIGH: values(q1=0, q2=0, q3=1)}, {"q1": "ep01", "q2": "ep01", "q3": "ep02"})
    assert found.held_out == pytest.approx(dict.fromkeys(SHOWN, 0.0))


def test_candidates_that_are_equal_everywhere_hold_out_what_they_are() -> None:
    same = values(q1=0.25, q2=0.75, q3=0.5)
    found = tune({LOW: same, HIGH: same}, {"q1": "ep01", "q2": "ep02", "q3": "ep03"})
    assert (found.held_out, found.share) == (pytest.approx(dict.fromkeys(SHOWN, 0.5)), 1.0)


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Backend:
    folder: Path = tmp_path_factory.mktemp("archive")
    warehouse = warehouse_at(folder)
    episodes = [f"ep{number:02d}" for number in range(1, len(TOPICS) + 1)]
    gold = []
    for number, (episode, topic) in enumerate(zip(episodes, TOPICS, strict=True)):
        write_episode(warehouse, episode, SETTINGS, sections=[section(0, topic, f"All that one can say of {topic}.")])
        span = {"episode": episode, "layer": "notes", "heading": topic}
        split = "dev" if number % 2 else "test"
        gold.append({"id": episode, "query": topic, "language": "en", "kind": "keyword", "split": split, "relevant": [span]})
    write_indexes(warehouse, episodes, SETTINGS)
    table = gold_table(GoldQuery.model_validate(query) for query in gold)
    warehouse.write("gold_set", None, table, recipe=recipe("gold_set", SETTINGS), inputs={})
    return open_backend(warehouse, SETTINGS, "char-ngram")


def test_the_choice_does_not_depend_on_the_test_split(backend: Backend) -> None:
    without = replace(backend, queries=[query for query in backend.queries if query.split == "dev"])
    assert tuned_on_dev(without) == tuned_on_dev(backend)


def test_without_dev_queries_nothing_is_chosen(backend: Backend) -> None:
    without = replace(backend, queries=[query for query in backend.queries if query.split == "test"])
    with pytest.raises(ValueError, match="dev split"):
        tuned_on_dev(without)


def test_the_report_has_a_row_for_each_mode_and_for_the_tuned_one(backend: Backend) -> None:
    lines = report(backend, FusionSettings(), EvaluationSettings(bootstrap_resamples=100))
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("|")][2:]
    assert rows == ["bm25_raw", "bm25_stem", "dense", "hybrid", "hybrid_cc", "hybrid_cc, tuned for this model"]
    assert lines == report(backend, FusionSettings(), EvaluationSettings(bootstrap_resamples=100))
