"""Which episode id an item of a feed gets. A pure function of the items and of the ids that are taken.

Ids are lower case, so that no two differ in case only, and sort in the order of the episodes.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping

from librarian_pipeline.archive.feeds.rss import Feed, Item

_MAX_BASE = 48  # Leaves room, within the 64 characters of an id, for what tells two apart.
_SHORTEST_DIGEST = 6
# A guid this long, or an address, is taken to be the only one of its kind; "17" is not.
_GLOBAL_GUID_CHARACTERS = 20

# What Unicode doesn't take apart into a letter of ASCII and a mark.
_LETTERS = str.maketrans(
    {
        **{"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ŋ": "n"},
        **dict(zip("абвгґдезиіїйклмнопрстуфцыэ", "abvggdeziiijklmnoprstufcye", strict=True)),
        **{"ж": "zh", "х": "kh", "ч": "ch", "ш": "sh", "щ": "shch", "ю": "yu", "я": "ya", "є": "ye", "ъ": "", "ь": ""},
        **dict(zip("αβγδεζηικλμνξοπρσςτυφω", "avgdeziiklmnxoprsstyfo", strict=True)),
        **{"θ": "th", "χ": "ch", "ψ": "ps"},
    }
)


def item_key(feed: Feed, item: Item) -> str:
    """What the ledger knows an item by: its guid, or, where that is missing, the best that stands for it.

    A guid that another podcast may well have too, such as `17`, is told apart by the podcast.
    """
    if item.guid and (len(item.guid) >= _GLOBAL_GUID_CHARACTERS or "://" in item.guid):
        return item.guid
    if item.guid:
        return f"{feed.guid or feed.link or feed.title}#{item.guid}"
    if item.enclosures:
        return item.enclosures[0].url
    date = item.published.date().isoformat() if item.published else ""
    return item.link or f"{feed.guid or feed.link or feed.title}#{date} {item.title}"


def assign_ids(items: Mapping[str, Item], known: Mapping[str, str], taken: Iterable[str]) -> dict[str, str]:
    """An id for each item, by the item's key.

    `known` holds the ids that were given before, by key: an item keeps its own whatever has changed. Nobody gets an id of
    `taken` or of `known`. Where two items would get the same id, the older one does, whatever their order in the feed.
    """
    used = {episode_id.lower() for episode_id in (*known.values(), *taken)}
    ids = {key: known[key] for key in items if key in known}
    for key in sorted(items.keys() - known.keys(), key=lambda key: (_date(items[key]), key)):
        ids[key] = _free_id(_base(items[key]), key, used)
        used.add(ids[key])
    return ids


def slug(text: str) -> str:
    """`text` in the lower-case letters and digits of ASCII, with dashes between words. Empty where none are left."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFC", text).lower().translate(_LETTERS))
    bare = "".join(char for char in plain.translate(_LETTERS) if not unicodedata.combining(char))
    return re.sub(r"[^a-z0-9]+", "-", bare).strip("-")


def _base(item: Item) -> str:
    """The id that an item would have if it were alone: by number, else by date and title."""
    number = f"ep{item.episode:03}" if item.episode is not None else ""
    if number and item.season is not None:
        number = f"s{item.season:02}e{item.episode:03}"
    if number:
        # Trailers and bonuses carry the number of the episode that they belong to.
        return number if item.episode_type == "full" else f"{number}-{slug(item.episode_type) or 'extra'}"[:_MAX_BASE]
    name = "-".join(filter(None, [_date(item), slug(item.title)]))
    return _shortened(name)


def _shortened(name: str) -> str:
    """At most `_MAX_BASE` characters, cut between words if that leaves enough."""
    if len(name) <= _MAX_BASE:
        return name
    cut = name[: _MAX_BASE + 1].rpartition("-")[0]
    return cut if len(cut) > _MAX_BASE // 2 else name[:_MAX_BASE].rstrip("-")


def _date(item: Item) -> str:
    return item.published.date().isoformat() if item.published else ""


def _free_id(base: str, key: str, used: set[str]) -> str:
    if base and base not in used:
        return base
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    lengths = range(_SHORTEST_DIGEST, 16)
    candidates = (f"{base or 'episode'}-{digest[:length]}" for length in lengths)
    return next(candidate for candidate in candidates if candidate not in used)
