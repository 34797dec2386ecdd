from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from librarian_pipeline.lineage.graph import ASSETS, NODES, Item, items, upstream_items
from librarian_pipeline.lineage.outdated import State, Verdict, verdicts
from librarian_pipeline_tests.lineage.simulation import Simulation

EPISODES = st.lists(st.sampled_from(["ep01", "ep02", "all", "a.b"]), min_size=1, max_size=3, unique=True).map(tuple)
CHANGE = st.sampled_from(["recipe", "source"])
# There are not many different worlds of this size.
few = settings(max_examples=40, deadline=None)


@st.composite
def derived_and_one_item(draw) -> tuple[Simulation, Item]:
    simulation = Simulation(draw(EPISODES)).derive_all()
    return simulation, draw(st.sampled_from(simulation.items))


def not_fresh(simulation: Simulation) -> dict[Item, State]:
    return {item: state for item, state in simulation.states().items() if state is not State.FRESH}


# The graph


def test_each_asset_comes_after_all_that_it_is_derived_from():
    seen: set[str] = set()
    for node in ASSETS:
        assert seen.issuperset(node.upstream)
        seen.add(node.name)


def test_an_episodes_item_is_derived_from_its_own_episode_and_an_archives_from_all():
    assert upstream_items(Item("chunks", "ep01"), ["ep01", "ep02"]) == [Item("transcripts", "ep01"), Item("notes", "ep01")]
    assert upstream_items(Item("vector_index"), ["ep01", "ep02"]) == [Item("embeddings", "ep01"), Item("embeddings", "ep02")]


def test_an_item_is_named_as_people_write_it():
    assert [str(Item("chunks", "ep01")), str(Item("gold_set"))] == ["chunks[ep01]", "gold_set"]


def test_an_archive_without_episodes_still_has_the_assets_of_the_archive():
    assert {item.asset for item in items([])} == {node.name for node in ASSETS if not node.per_episode}


# Verdicts


@few
@given(EPISODES)
def test_what_was_never_derived_is_missing(episodes):
    assert set(Simulation(episodes).states().values()) == {State.MISSING}


@few
@given(EPISODES)
def test_after_everything_was_derived_all_is_fresh(episodes):
    assert not_fresh(Simulation(episodes).derive_all()) == {}


@few
@given(derived_and_one_item(), CHANGE)
def test_a_change_makes_its_item_stale_and_what_is_derived_from_it_wait_and_nothing_else(case, what):
    simulation, item = case
    simulation.change(item, what)
    assert not_fresh(simulation) == {item: State.STALE, **dict.fromkeys(simulation.dependants(item), State.WAITING)}


@few
@given(derived_and_one_item(), CHANGE)
def test_after_a_change_exactly_the_item_and_what_is_derived_from_it_are_derived_again(case, what):
    simulation, item = case
    simulation.change(item, what)
    simulation.derived.clear()
    simulation.derive_all()
    assert set(simulation.derived) == {item, *simulation.dependants(item)}
    assert not_fresh(simulation) == {}


@few
@given(derived_and_one_item(), CHANGE)
def test_where_the_output_comes_out_equal_nothing_downstream_is_derived(case, what):
    simulation, item = case
    simulation.change(item, what)
    simulation.derived.clear()
    simulation.derive_all(lambda each: simulation.stored[each].content_hash)
    assert simulation.derived == [item]
    assert not_fresh(simulation) == {}


@few
@given(derived_and_one_item(), CHANGE)
def test_a_change_that_is_taken_back_leaves_all_fresh(case, what):
    simulation, item = case
    recipes, sources = dict(simulation.recipes), dict(simulation.sources)
    simulation.change(item, what)
    simulation.recipes, simulation.sources = recipes, sources
    assert not_fresh(simulation) == {}


@few
@given(st.data())
def test_any_number_of_changes_is_caught_up_with_by_deriving_what_is_due(data):
    simulation = Simulation(data.draw(EPISODES)).derive_all()
    for item in data.draw(st.lists(st.sampled_from(simulation.items), max_size=5)):
        simulation.change(item, data.draw(CHANGE))
    assert not_fresh(simulation.derive_all()) == {}


@few
@given(derived_and_one_item())
def test_an_output_that_is_gone_is_missing(case):
    simulation, item = case
    del simulation.stored[item]
    assert simulation.states()[item] is State.MISSING


@pytest.mark.parametrize("asset", ["bm25_raw_index", "episodes", "vector_index"])
def test_an_episode_that_comes_or_goes_makes_the_archives_assets_stale(asset):
    simulation = Simulation(("ep01", "ep02")).derive_all()
    fewer = Simulation(("ep01",))
    fewer.stored = simulation.stored
    assert fewer.states()[Item(asset)] is State.STALE


def test_a_new_episode_makes_nothing_of_the_other_episodes_due():
    old = Simulation(("ep01",)).derive_all()
    more = Simulation(("ep01", "ep02"))
    more.stored = old.stored
    due = {item for item, verdict in more.verdicts.items() if verdict.due}
    assert due == {item for item in more.items if item.partition == "ep02"}


# Failures


@few
@given(derived_and_one_item(), CHANGE)
def test_a_failure_holds_as_long_as_recipe_and_inputs_are_the_same(case, what):
    simulation, item = case
    simulation.change(item, what)
    simulation.fail(item)
    assert not_fresh(simulation) == {item: State.FAILED}


@few
@given(derived_and_one_item(), CHANGE)
def test_a_failure_is_tried_again_once_recipe_or_inputs_change(case, what):
    simulation, item = case
    simulation.fail(item)
    simulation.change(item, what)
    assert simulation.states()[item] is State.STALE


@few
@given(derived_and_one_item(), st.data())
def test_a_failure_waits_with_everything_else_while_something_upstream_is_due(case, data):
    simulation, item = case
    simulation.fail(item)
    upstream = [other for other in simulation.items if item in simulation.dependants(other)]
    if upstream:
        simulation.change(data.draw(st.sampled_from(upstream)), "recipe")
        assert simulation.states()[item] is State.WAITING


@few
@given(derived_and_one_item())
def test_what_is_derived_from_a_failed_item_goes_on_without_it(case):
    simulation, item = case
    del simulation.stored[item]
    simulation.fail(item)
    simulation.derive_all()
    assert not_fresh(simulation) == {item: State.FAILED}


def test_the_reason_of_a_failure_is_its_line():
    simulation = Simulation(("ep01",)).derive_all()
    simulation.fail(Item("notes", "ep01"))
    assert simulation.verdicts[Item("notes", "ep01")].reasons == ("notes[ep01] is broken: mend it",)


# Reasons


def reasons_after(change) -> tuple[str, ...]:
    """Of `chunks[ep01]`, after a change to a simulation in which all was fresh."""
    simulation = Simulation(("ep01",)).derive_all()
    change(simulation)
    return simulation.verdicts[Item("chunks", "ep01")].reasons


def test_a_reason_names_the_part_of_the_recipe_that_changed_with_both_values():
    def change(simulation):
        simulation.recipes[Item("chunks", "ep01")] = {"code": 2, "max_s": 60}

    assert reasons_after(change) == ("recipe: code 1 -> 2", "recipe: max_s none -> 60")


def test_a_reason_names_the_input_that_changed():
    assert reasons_after(lambda s: s.derive(Item("notes", "ep01"), "other")) == ("notes[ep01] changed",)


def test_a_reason_names_the_input_that_is_new():
    assert reasons_after(lambda s: s.sources.update({Item("chunks", "ep01"): {"extra": "v1"}})) == ("extra is new",)


def test_a_reason_names_the_input_that_is_gone():
    def change(simulation):
        del simulation.stored[Item("notes", "ep01")]
        simulation.fail(Item("notes", "ep01"))

    assert reasons_after(change) == ("notes[ep01] is gone",)


def test_what_was_never_derived_says_so():
    assert Simulation(("ep01",)).verdicts[Item("chunks", "ep01")].reasons == ("never derived",)


def test_what_waits_names_what_it_waits_for_and_no_more_than_three_of_them():
    simulation = Simulation(tuple(f"ep{n:02d}" for n in range(5))).derive_all()
    for episode in simulation.episodes:
        simulation.change(Item("chunks", episode), "recipe")
    reasons = simulation.verdicts[Item("bm25_raw_index")].reasons
    assert reasons == ("waits for chunks[ep00], chunks[ep01], chunks[ep02] and 2 more",)


@pytest.mark.parametrize(
    ("state", "settled", "due"),
    [
        (State.FRESH, True, False),
        (State.FAILED, True, False),
        (State.WAITING, False, False),
        (State.MISSING, False, True),
        (State.STALE, False, True),
    ],
)
def test_settled_is_nothing_to_do_and_due_is_to_be_done_whatever_comes_out_upstream(state, settled, due):
    assert (Verdict(state).settled, Verdict(state).due) == (settled, due)


def test_every_asset_of_the_graph_is_judged():
    assert {item.asset for item in Simulation(("ep01",)).verdicts} == set(NODES)


# Blocks


def blocked(simulation: Simulation, item: Item) -> dict[Item, Verdict]:
    return verdicts(replace(simulation.world, blocks={item: "a gate failed"}))


def test_what_is_directly_derived_from_a_blocked_asset_of_the_archive_is_blocked_and_says_why():
    found = blocked(Simulation(("ep01",)).derive_all(), Item("eval_scores"))
    assert found[Item("published_index")] == Verdict(State.BLOCKED, ("eval_scores: a gate failed",))
    assert {verdict.state for item, verdict in found.items() if item != Item("published_index")} == {State.FRESH}


def test_one_episodes_block_does_not_block_the_archives_assets():
    simulation = Simulation(("ep01", "ep02")).derive_all()
    found = blocked(simulation, Item("transcripts", "ep01"))
    assert {item for item, verdict in found.items() if verdict.state is State.BLOCKED} == {
        Item("chunks", "ep01"),
    }


def test_what_waits_is_not_blocked_yet():
    simulation = Simulation(("ep01",)).derive_all()
    simulation.change(Item("eval_scores"), "recipe")
    assert blocked(simulation, Item("eval_scores"))[Item("published_index")].state is State.WAITING


def test_an_output_of_which_what_matters_is_gone_is_missing_and_says_so():
    world = replace(Simulation(("ep01",)).derive_all().world, lost={Item("published_index"): "nothing is published"})
    assert verdicts(world)[Item("published_index")] == Verdict(State.MISSING, ("nothing is published",))
