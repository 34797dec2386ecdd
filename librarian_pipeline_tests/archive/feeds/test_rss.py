import time

import pytest

from librarian_pipeline.archive.feeds.rss import Chapter, Enclosure, Feed, Item, TranscriptTag, parse_feed
from librarian_pipeline.errors import UsageError

NAMESPACES = (
    'xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" xmlns:content="http://purl.org/rss/1.0/modules/content/" '
    'xmlns:podcast="https://podcastindex.org/namespace/1.0" xmlns:psc="http://podlove.org/simple-chapters" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"'
)


def parse(items: str, *, head: str = "", namespaces: str = NAMESPACES) -> Feed:
    text = f'<?xml version="1.0" encoding="UTF-8"?><rss version="2.0" {namespaces}><channel>{head}{items}</channel></rss>'
    return parse_feed(text.encode(), "feed.xml")


def only(items: str, **options: str) -> Item:
    [item] = parse(items, **options).items
    return item


def test_an_item_is_read_with_all_that_it_says() -> None:
    feed = parse(
        """<item><guid isPermaLink="false"> kettle-3 </guid><title>The slow\n kettle</title>
        <pubDate>Tue, 05 Mar 2024 23:30:00 -0800</pubDate><link>https://tea.example/3</link>
        <description>short</description>
        <content:encoded><![CDATA[<p>Tea &amp; <b>steam</b>]]]]><![CDATA[></p>]]></content:encoded>
        <enclosure url="https://tea.example/3.mp3" type="Audio/MPEG; x=y" length="1234"/>
        <podcast:transcript url="3.vtt" type="text/vtt" language="en" rel="captions"/>
        <podcast:chapters url="3.json" type="application/json+chapters"/>
        <itunes:season>2</itunes:season><itunes:episode>3</itunes:episode><itunes:episodeType>Full</itunes:episodeType></item>""",
        head="<title>Tea talk</title><link>https://tea.example/</link><language>en-GB</language>",
    )
    [item] = feed.items
    assert (feed.title, feed.link) == ("Tea talk", "https://tea.example/")
    assert (item.guid, item.title, item.language) == ("kettle-3", "The slow kettle", "en-GB")
    assert item.published is not None
    assert item.published.isoformat() == "2024-03-05T23:30:00-08:00"
    assert item.description == "<p>Tea &amp; <b>steam</b>]]></p>"
    assert item.enclosures == (Enclosure("https://tea.example/3.mp3", "audio/mpeg", 1234),)
    assert item.transcripts == (TranscriptTag("3.vtt", "text/vtt", "en", "captions"),)
    assert item.chapters_url == "3.json"
    assert (item.season, item.episode, item.episode_type) == (2, 3, "full")


def test_every_repeated_transcript_tag_counts() -> None:
    tags = "".join(f'<podcast:transcript url="{n}.vtt" type="text/vtt"/>' for n in range(3))
    assert [tag.url for tag in only(f"<item>{tags}</item>").transcripts] == ["0.vtt", "1.vtt", "2.vtt"]


@pytest.mark.parametrize(
    "uri",
    [
        "https://podcastindex.org/namespace/1.0/",
        "http://podcastindex.org/namespace/1.0",
        "https://github.com/Podcastindex-org/podcast-namespace/blob/main/docs/1.0.md",
    ],
)
def test_a_namespace_counts_by_its_address_and_not_by_its_prefix(uri: str) -> None:
    item = only('<item><pc:transcript url="a.srt"/></item>', namespaces=f'xmlns:pc="{uri}"')
    assert [tag.url for tag in item.transcripts] == ["a.srt"]


def test_a_transcript_tag_of_an_unknown_namespace_is_not_taken_for_one() -> None:
    assert only('<item><x:transcript url="a.srt"/></item>', namespaces='xmlns:x="urn:x"').transcripts == ()


def test_the_language_of_an_item_goes_before_that_of_the_feed() -> None:
    head = "<language>en</language>"
    assert only("<item><dc:language>cs</dc:language></item>", head=head).language == "cs"
    assert only("<item/>", head=head).language == "en"
    assert only("<item/>").language is None


def test_an_item_that_says_nothing_is_an_empty_item() -> None:
    item = only("<item><guid/><enclosure/><enclosure url=' '/><podcast:transcript/><podcast:chapters/></item>")
    assert (item.guid, item.title, item.published, item.description) == (None, "", None, "")
    assert (item.enclosures, item.transcripts, item.chapters_url) == ((), (), None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tue, 05 Mar 2024 08:00:00 GMT", "2024-03-05"),
        ("5 Mar 24 08:00 +0100", "2024-03-05"),
        ("2024-03-05T08:00:00Z", "2024-03-05"),
        ("yesterday", None),
        ("Tue, 35 Mar 2024 08:00:00 GMT", None),
        ("", None),
    ],
)
def test_dates_are_read_as_e_mail_and_iso_write_them(text: str, expected: str | None) -> None:
    published = only(f"<item><pubDate>{text}</pubDate></item>").published
    assert (published.date().isoformat() if published else None) == expected


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), ("0", 0), ("12.5", None), ("-1", None), ("²", None), ("9" * 30, None)]
)
def test_only_whole_numbers_number_an_episode(text: str, number: int | None) -> None:
    assert only(f"<item><itunes:episode>{text}</itunes:episode></item>").episode == number


@pytest.mark.parametrize(("length", "expected"), [("0", 0), ("", None), ("1e6", None), ("-5", None), ("9" * 40, None)])
def test_a_length_that_is_no_number_of_bytes_is_unknown(length: str, expected: int | None) -> None:
    [enclosure] = only(f'<item><enclosure url="a.mp3" length="{length}"/></item>').enclosures
    assert enclosure.length == expected


def test_simple_chapters_in_the_feed_are_read_without_those_that_have_no_usable_start() -> None:
    item = only(
        """<item><psc:chapters><psc:chapter start="00:00:00.000" title="Start"/>
        <psc:chapter start="1:02:03.500" title="The  leak" href="https://tea.example/leak"/>
        <psc:chapter start="soon" title="x"/><psc:chapter title="y"/></psc:chapters></item>"""
    )
    assert item.chapters == (Chapter(0, "Start", None), Chapter(3_723_500, "The leak", "https://tea.example/leak"))


def test_a_feed_in_latin_1_that_says_so_is_read() -> None:
    text = '<?xml version="1.0" encoding="ISO-8859-1"?><rss><channel><title>Café</title></channel></rss>'
    assert parse_feed(text.encode("latin-1"), "f").title == "Café"


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"\n \n", b"\xef\xbb\xbf\n"])
def test_a_byte_order_mark_and_blank_lines_before_the_feed_are_no_matter(start: bytes) -> None:
    text = '<?xml version="1.0" encoding="UTF-8"?><rss><channel><title>Čaj</title></channel></rss>'
    assert parse_feed(start + text.encode(), "f").title == "Čaj"


def test_a_feed_in_utf_16_is_read() -> None:
    assert parse_feed("<rss><channel><title>Čaj</title></channel></rss>".encode("utf-16"), "f").title == "Čaj"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'<feed xmlns="http://www.w3.org/2005/Atom"><title>x</title></feed>', "f is an Atom feed, not an RSS 2.0 feed"),
        (b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>', "f is an RSS 1.0 feed"),
        (b"<html><body/></html>", "f is a web page"),
        (b"<opml/>", "f is XML that begins with <opml>"),
        (b"<rss/>", "not an RSS 2.0 feed"),
        (b"<rss><channel><item></channel></rss>", "f is not XML"),
        (b"<rss><channel>&nbsp;</channel></rss>", "f is not XML"),
        (b"", "f is not XML"),
        (b"\x00\x01", "f is not XML"),
        (b"no feed", "f is not XML"),
        (b'<?xml version="1.0" encoding="klingon"?><rss/>', "f is not XML"),
    ],
)
def test_what_is_not_an_rss_feed_is_refused_with_one_line(content: bytes, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        parse_feed(content, "f")


def test_entities_are_not_expanded() -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 30))
    bomb = f'<!DOCTYPE rss [<!ENTITY l0 "ha">{laughs}]><rss><channel><title>&l29;</title></channel></rss>'
    with pytest.raises(UsageError, match="defines XML entities, which are refused"):
        parse_feed(bomb.encode(), "f")


def test_files_of_this_machine_cannot_be_drawn_in() -> None:
    feed = b'<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/hostname">]><rss><channel><title>&x;</title></channel></rss>'
    with pytest.raises(UsageError, match="refused"):
        parse_feed(feed, "f")


def test_ten_thousand_items_are_read_quickly() -> None:
    item = '<item><guid>g{n}</guid><title>T</title><description>words</description><enclosure url="{n}.mp3"/></item>'
    started = time.monotonic()
    assert len(parse("".join(item.format(n=n) for n in range(10_000))).items) == 10_000
    assert time.monotonic() - started < 5
