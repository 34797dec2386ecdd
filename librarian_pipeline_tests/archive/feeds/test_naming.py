from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from librarian_pipeline.archive.feeds.naming import assign_ids, item_key, slug
from librarian_pipeline.archive.feeds.rss import Enclosure, Feed, Item
from librarian_pipeline.archive.layout import EPISODE_ID

FIRST_DAY = datetime(2024, 3, 5, tzinfo=UTC)


def item(
    title: str = "",
    *,
    guid: str | None = None,
    day: int | None = None,
    season: int | None = None,
    episode: int | None = None,
    kind: str = "full",
    url: str | None = None,
    link: str | None = None,
) -> Item:
    published = None if day is None else FIRST_DAY + timedelta(days=day)
    enclosures = (Enclosure(url, "audio/mpeg", None),) if url else ()
    return Item(guid, title, published, None, "", link, enclosures, (), None, (), season, episode, kind)


def id_of(one: Item) -> str:
    return assign_ids({"key": one}, {}, ())["key"]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (item("The slow kettle", season=2, episode=5, day=0), "s02e005"),
        (item("The slow kettle", episode=5), "ep005"),
        (item("The slow kettle", episode=1234), "ep1234"),
        (item("Soon", episode=5, kind="trailer"), "ep005-trailer"),
        (item("More", season=1, episode=5, kind="bonus"), "s01e005-bonus"),
        (item("The slow kettle!", day=0), "2024-03-05-the-slow-kettle"),
        (item("Příliš žluťoučký kůň", day=0), "2024-03-05-prilis-zlutoucky-kun"),
        (item("Straße & Smørrebrød", day=0), "2024-03-05-strasse-smorrebrod"),
        (item("Чай и щи", day=0), "2024-03-05-chaj-i-shchi"),
        (item("Τσάι", day=0), "2024-03-05-tsai"),
        (item("茶", day=0), "2024-03-05"),
        (item("The slow kettle"), "the-slow-kettle"),
        (item("../../etc/passwd", day=0), "2024-03-05-etc-passwd"),
    ],
)
def test_an_id_is_the_number_else_the_date_and_the_title(one: Item, expected: str) -> None:
    assert id_of(one) == expected


def test_a_long_title_is_cut_between_words() -> None:
    assert id_of(item("a kettle that takes its time to boil the water slowly", day=0)) == (
        "2024-03-05-a-kettle-that-takes-its-time-to-boil"
    )


def test_of_two_that_would_get_the_same_id_the_older_gets_it_whatever_their_order() -> None:
    older, newer = item("Five", guid="z", episode=5, day=0), item("Five again", guid="a", episode=5, day=1)
    ids = assign_ids({"z": older, "a": newer}, {}, ())
    assert ids["z"] == "ep005"
    assert ids["a"].startswith("ep005-")
    assert assign_ids({"a": newer, "z": older}, {}, ()) == ids


def test_an_id_that_a_file_has_already_is_not_given_even_in_capitals() -> None:
    assert assign_ids({"k": item(episode=5)}, {}, ["EP005"])["k"].startswith("ep005-")


def test_an_item_keeps_its_id_when_its_title_date_and_number_change() -> None:
    assert assign_ids({"k": item("New title", episode=9, day=3)}, {"k": "ep005"}, ["ep005"]) == {"k": "ep005"}


def test_a_guid_identifies_an_item_and_a_short_one_only_within_its_podcast() -> None:
    tea, coffee = Feed("Tea", "https://tea.example", None, ()), Feed("Coffee", "https://coffee.example", None, ())
    long = item(guid="https://tea.example/?p=17")
    assert item_key(tea, long) == item_key(coffee, long) == "https://tea.example/?p=17"
    assert item_key(tea, item(guid="17")) != item_key(coffee, item(guid="17"))


def test_without_a_guid_the_address_of_the_audio_or_the_page_stands_for_it() -> None:
    feed = Feed("Tea", None, None, ())
    assert item_key(feed, item(url="https://tea.example/3.mp3", link="https://tea.example/3")) == "https://tea.example/3.mp3"
    assert item_key(feed, item(link="https://tea.example/3")) == "https://tea.example/3"
    assert item_key(feed, item("The kettle", day=0)) == "Tea#2024-03-05 The kettle"


ITEMS = st.builds(
    item,
    st.text(max_size=80) | st.sampled_from(["Kettle", "kettle", "KETTLE!", "con", "茶"]),
    day=st.none() | st.integers(0, 3),
    season=st.none() | st.integers(0, 2) | st.integers(0, 99_999),
    episode=st.none() | st.integers(0, 3) | st.integers(0, 99_999),
    kind=st.sampled_from(["full", "bonus", "trailer"]) | st.text(max_size=90),
)
FEEDS = st.dictionaries(st.text(min_size=1, max_size=8), ITEMS, max_size=12)


@given(FEEDS, st.lists(st.sampled_from(["ep001", "Kettle", "2024-03-05-kettle"])))
@settings(max_examples=300, deadline=None)
def test_ids_are_valid_unique_in_any_case_and_new(items: dict[str, Item], taken: list[str]) -> None:
    ids = assign_ids(items, {}, taken)
    assert ids.keys() == items.keys()
    assert all(EPISODE_ID.fullmatch(episode_id) for episode_id in ids.values())
    assert len({episode_id.lower() for episode_id in [*ids.values(), *taken]}) == len(ids) + len({t.lower() for t in taken})


@given(FEEDS, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_ids_do_not_depend_on_the_order_of_the_feed(items: dict[str, Item], random: object) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert assign_ids({key: items[key] for key in shuffled}, {}, ()) == assign_ids(items, {}, ())


@given(FEEDS, FEEDS)
@settings(max_examples=200, deadline=None)
def test_what_has_an_id_keeps_it_whatever_the_feed_becomes(before: dict[str, Item], after: dict[str, Item]) -> None:
    known = assign_ids(before, {}, ())
    ids = assign_ids(after, known, known.values())
    assert all(ids[key] == known[key] for key in ids.keys() & known.keys())
    assert len(set(ids.values())) == len(ids)


@given(st.text())
def test_a_slug_has_only_letters_digits_and_single_dashes_between_them(text: str) -> None:
    made = slug(text)
    assert made == "" or all(
        part.isascii() and part.isalnum() and part.islower() | part.isdigit() for part in made.split("-")
    )
