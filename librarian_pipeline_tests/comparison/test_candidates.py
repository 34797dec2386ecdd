import pytest
from hypothesis import given
from hypothesis import strategies as st

from librarian_pipeline.comparison.candidates import candidates_of, parse_changes
from librarian_pipeline.errors import UsageError
from librarian_pipeline.settings import Settings

KEYS = st.from_regex(r"[a-z]{1,8}\.[a-z_0-9]{1,12}", fullmatch=True)
VALUES = st.booleans() | st.integers(-(2**40), 2**40) | st.text("abcž :/,='#", max_size=12)


def written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def complaint(*asked: str, settings: Settings | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        candidates_of(settings or Settings(), asked)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_what_is_written_as_toml_is_read_as_it_was_meant(changes):
    assert parse_changes(",".join(f"{key}={written(value)}" for key, value in changes.items())) == changes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("all-MiniLM-L6-v2", "all-MiniLM-L6-v2"),
        ("st:/models/it's here", "st:/models/it's here"),
        ("2024-01-01", "2024-01-01"),
        ("[1]", "[1]"),
        ("1 # one", 1),
        ("0.5", 0.5),
        ("'a,b'", "a,b"),
        ('"a\\u017e,b"', "až,b"),
        ("", ""),
    ],
)
def test_a_value_that_is_none_of_toml_is_text(text, value):
    assert parse_changes(f"a.b={text}") == {"a.b": value}


def test_spaces_around_keys_and_values_are_not_part_of_them():
    assert parse_changes(" fusion.c = 10 , normalizer.name = none ") == {"fusion.c": 10, "normalizer.name": "none"}


def test_a_comma_at_the_end_is_no_mistake():
    assert parse_changes("fusion.c=10,") == {"fusion.c": 10}


@pytest.mark.parametrize("text", ["", " ", "fusion.c", "fusion.c=10,,fusion.depth=5", "fusion.c=10,c", "=10", 'a.b="x,y'])
def test_what_is_no_change_is_refused(text):
    with pytest.raises(UsageError, match=r"is no change: write section\.key=value"):
        parse_changes(text)


def test_the_first_candidate_is_the_settings_as_they_are():
    settings = Settings()
    first, second = candidates_of(settings, ["fusion.c=10,normalizer.name=snowball"])
    assert (first.name, first.settings) == ("as set", settings)
    assert (second.settings.fusion.c, second.settings.normalizer.name) == (10, "snowball")
    assert second.settings.embeddings == settings.embeddings


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            ["embeddings.modle=x"],
            "--set 'embeddings.modle=x' has the unknown key embeddings.modle: did you mean embeddings.mode",
        ),
        (["fusion.c=many"], "--set 'fusion.c=many': fusion.c = 'many': Input should be a valid integer"),
        (["chunks.target_s=90"], "--set 'chunks.target_s=90': chunks: target_s (90) must not be above max_s (60)"),
        (["fusion.c=1,fusion.c=2"], "sets fusion.c twice"),
        (["fusion.c=1", "fusion.c = 1"], "is the same as --set 'fusion.c=1'"),
        (["fusion.c=60"], "--set 'fusion.c=60' changes nothing"),
    ],
)
def test_wrong_changes_are_one_line_that_names_them(asked, said):
    assert said in complaint(*asked)
