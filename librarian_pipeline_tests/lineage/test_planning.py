from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from librarian_pipeline.lineage.graph import ARCHIVE_ASSETS, EPISODE_ASSETS, Item, upstream_items
from librarian_pipeline.lineage.outdated import State
from librarian_pipeline.lineage.planning import Batch, Planner, Scope
from librarian_pipeline_tests.lineage.simulation import Simulation

EVERYTHING = Scope()
few = settings(max_examples=40, deadline=None)
Result = str  # "ok", "recorded" (a source that can't be read) or "crashed"


def next_round(simulation: Simulation, planner: Planner | None = None) -> list[Batch]:
    return (planner or Planner(EVERYTHING)).next_round(simulation.verdicts, simulation.episodes)


def run(simulation: Simulation, planner: Planner, result: Callable[[Item], Result] = lambda item: "ok") -> list[Batch]:
    """Plans and derives round after round, as a run does. What is derived from a step that failed is skipped in its run, and
    so it isn't tried there."""
    done: list[Batch] = []
    while batches := next_round(simulation, planner):
        for batch in batches:
            not_derived: set[Item] = set()
            tried: list[Item] = []
            for item in batch.items:
                if not_derived.intersection(upstream_items(item, simulation.episodes)):
                    not_derived.add(item)
                    continue
                tried.append(item)
                outcome = result(item)
                if outcome == "ok":
                    simulation.derive(item)
                else:
                    not_derived.add(item)
                    if outcome == "recorded":
                        simulation.fail(item)
            planner.attempted.update(tried)
            done.append(Batch(batch.partition, tuple(item.asset for item in tried)))
        assert len(done) <= len(simulation.items)
    return done


def fresh(*episodes: str) -> Simulation:
    return Simulation(episodes or ("ep01", "ep02")).derive_all()


def test_a_new_episode_is_derived_in_one_run_from_end_to_end():
    assert next_round(Simulation(("ep01",))) == [Batch("ep01", EPISODE_ASSETS)]


def test_each_episode_has_a_run_of_its_own():
    assert [batch.partition for batch in next_round(Simulation(("ep01", "ep02")))] == ["ep01", "ep02"]


def test_the_archives_assets_follow_in_one_run_once_the_episodes_are_done():
    simulation = Simulation(("ep01", "ep02"))
    batches = run(simulation, Planner(EVERYTHING))
    assert [batch.partition for batch in batches] == ["ep01", "ep02", None]
    assert batches[-1].assets == ARCHIVE_ASSETS


def test_an_archive_without_episodes_has_only_the_run_of_the_archive():
    assert next_round(Simulation(())) == [Batch(None, ARCHIVE_ASSETS)]


def test_where_all_is_fresh_nothing_is_planned():
    assert next_round(fresh()) == []


def test_what_merely_waits_is_not_taken():
    simulation = fresh()
    simulation.change(Item("notes", "ep01"), "source")
    assert next_round(simulation) == [Batch("ep01", ("notes",))]


def test_what_is_due_whatever_comes_out_upstream_is_taken_in_the_same_run():
    simulation = fresh()
    simulation.change(Item("notes", "ep01"), "source")
    simulation.change(Item("chunks", "ep01"), "recipe")
    assert next_round(simulation) == [Batch("ep01", ("notes", "chunks"))]


def test_what_is_due_but_has_something_waiting_before_it_is_left_for_a_later_round():
    simulation = fresh()
    simulation.change(Item("audio", "ep01"), "source")
    simulation.change(Item("chunks", "ep01"), "recipe")
    assert next_round(simulation) == [Batch("ep01", ("audio",))]


def test_an_equal_output_ends_the_run_early():
    simulation, planner = fresh(), Planner(EVERYTHING)
    simulation.change(Item("audio", "ep01"), "source")
    (batch,) = next_round(simulation, planner)
    planner.attempted.update(batch.items)
    simulation.derive(Item("audio", "ep01"), simulation.stored[Item("audio", "ep01")].content_hash)
    assert next_round(simulation, planner) == []


def test_a_changed_gold_set_derives_only_itself_and_the_scores_and_publishes_these():
    simulation = fresh()
    simulation.change(Item("gold_set"), "source")
    # What is published holds the gold set too, so that it is due in any case.
    rounds = [batch.assets for batch in run(simulation, Planner(EVERYTHING))]
    assert rounds == [("gold_set",), ("eval_scores", "published_index")]


# Scope


def test_assets_that_are_left_out_are_not_derived():
    simulation = fresh()
    simulation.change(Item("eval_scores"), "recipe")
    planner = Planner(Scope(without=frozenset({"published_index"})))
    assert [batch.assets for batch in run(simulation, planner)] == [("eval_scores",)]


def test_episodes_outside_the_scope_are_not_derived_and_the_archives_assets_are():
    simulation = Simulation(("ep01", "ep02"))
    batches = run(simulation, Planner(Scope(frozenset({"ep02"}))))
    assert batches == [Batch("ep02", EPISODE_ASSETS), Batch(None, ARCHIVE_ASSETS)]


def test_a_full_run_derives_everything_once_whatever_its_state():
    batches = run(fresh(), Planner(Scope(full=True)))
    assert batches == [Batch("ep01", EPISODE_ASSETS), Batch("ep02", EPISODE_ASSETS), Batch(None, ARCHIVE_ASSETS)]


def test_a_full_run_of_one_episode_derives_that_one_and_the_archives_assets():
    batches = run(fresh(), Planner(Scope(frozenset({"ep01"}), full=True)))
    assert batches == [Batch("ep01", EPISODE_ASSETS), Batch(None, ARCHIVE_ASSETS)]


def test_a_full_run_tries_again_what_has_failed():
    simulation = fresh("ep01")
    simulation.fail(Item("notes", "ep01"))
    assert "notes" in next_round(simulation, Planner(Scope(full=True)))[0].assets


# Failures


@pytest.mark.parametrize("outcome", ["recorded", "crashed"])
@pytest.mark.parametrize("asset", EPISODE_ASSETS)
def test_an_episode_that_fails_holds_back_neither_the_other_episodes_nor_the_archives_assets(asset, outcome):
    simulation = Simulation(("ep01", "ep02"))
    broken = Item(asset, "ep01")
    run(simulation, Planner(EVERYTHING), lambda item: outcome if item == broken else "ok")
    assert set(simulation.derived).issuperset({Item(name, "ep02") for name in EPISODE_ASSETS})
    assert set(simulation.derived).issuperset({Item(name) for name in ARCHIVE_ASSETS})


def test_what_an_episodes_failed_source_feeds_goes_on_without_it():
    simulation = Simulation(("ep01",))
    run(simulation, Planner(EVERYTHING), lambda item: "recorded" if item.asset == "notes" else "ok")
    assert Item("chunks", "ep01") in simulation.derived


def test_what_an_episodes_crashed_step_feeds_does_not_go_on():
    simulation = Simulation(("ep01",))
    run(simulation, Planner(EVERYTHING), lambda item: "crashed" if item.asset == "notes" else "ok")
    assert Item("chunks", "ep01") not in simulation.derived


def test_scores_are_not_measured_over_an_index_that_could_not_be_built():
    simulation = fresh()
    simulation.change(Item("vector_index"), "recipe")
    simulation.change(Item("bm25_raw_index"), "recipe")
    run(simulation, Planner(EVERYTHING), lambda item: "crashed" if item.asset == "vector_index" else "ok")
    assert simulation.derived[-1] == Item("bm25_raw_index")


def test_what_failed_before_for_the_same_reason_is_not_tried():
    simulation = fresh()
    simulation.change(Item("notes", "ep01"), "source")
    simulation.fail(Item("notes", "ep01"))
    assert next_round(simulation) == []


# However it goes


@few
@given(st.data())
def test_a_run_ends_and_tries_nothing_twice_whatever_fails(data):
    simulation = Simulation(data.draw(st.sampled_from([(), ("ep01",), ("ep01", "ep02", "ep03")])))
    if data.draw(st.booleans()):
        simulation.derive_all()
    for item in data.draw(st.lists(st.sampled_from(simulation.items), max_size=6)):
        simulation.change(item, data.draw(st.sampled_from(["recipe", "source"])))
    scope = Scope(data.draw(st.none() | st.frozensets(st.sampled_from(["ep01", "ep02"]))), data.draw(st.booleans()))
    outcomes = st.sampled_from(["ok", "ok", "recorded", "crashed"])
    batches = run(simulation, Planner(scope), lambda item: data.draw(outcomes))
    tried = [item for batch in batches for item in batch.items]
    assert len(tried) == len(set(tried))
    assert all(scope.holds(item) for item in tried)
    assert next_round(simulation, Planner(scope, set(tried))) == []


@few
@given(st.data())
def test_where_nothing_fails_a_run_leaves_all_fresh(data):
    simulation = Simulation(data.draw(st.sampled_from([(), ("ep01",), ("ep01", "ep02")])))
    for item in data.draw(st.lists(st.sampled_from(simulation.items), unique=True)):
        simulation.derive(item)
    run(simulation, Planner(EVERYTHING))
    assert set(simulation.states().values()) == {State.FRESH}


@few
@given(st.data())
def test_each_item_of_a_run_comes_after_all_of_the_run_that_it_is_derived_from(data):
    simulation = Simulation(("ep01", "ep02"))
    for item in data.draw(st.lists(st.sampled_from(simulation.items), unique=True)):
        simulation.derive(item)
    for batch in next_round(simulation):
        for position, item in enumerate(batch.items):
            assert not set(batch.items[position:]).intersection(upstream_items(item, simulation.episodes))


def test_the_scores_don_t_wait_for_an_index_that_waits_for_an_episode_that_was_not_asked_for():
    simulation = fresh()
    simulation.change(Item("notes", "ep02"), "source")
    simulation.change(Item("gold_set"), "source")
    done = run(simulation, Planner(Scope(frozenset({"ep01"}))))
    assert [batch.assets for batch in done] == [("gold_set",), ("eval_scores", "published_index")]


def test_the_scores_don_t_wait_for_an_episode_whose_step_crashed():
    simulation = fresh()
    simulation.change(Item("chunks", "ep02"), "recipe")
    simulation.change(Item("gold_set"), "source")
    run(simulation, Planner(EVERYTHING), lambda item: "crashed" if item == Item("chunks", "ep02") else "ok")
    assert Item("eval_scores") in simulation.derived[-2:]
