from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.storage.provenance import Provenance, fingerprint

VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False)
RECIPES = st.dictionaries(st.text(max_size=5), VALUES, max_size=5)


@given(RECIPES)
def test_the_order_of_a_recipes_keys_does_not_matter(recipe):
    assert fingerprint(recipe) == fingerprint(dict(reversed(recipe.items())))


@given(RECIPES, st.text(max_size=5), st.integers())
def test_a_changed_part_changes_the_fingerprint(recipe, key, value):
    assert fingerprint({**recipe, key: value}) != fingerprint({**recipe, key: value + 1})


@given(RECIPES, st.dictionaries(st.text(max_size=5), st.text(max_size=5)), st.none() | st.text(max_size=5))
def test_a_record_comes_back_from_json_as_it_was(recipe, inputs, partition):
    record = Provenance("chunks", partition, recipe, inputs, "hash", 3, {"beside": "other"})
    assert Provenance.from_json(record.to_json()) == record
