"""An invented podcast, as a feed and the files that it leads to."""

from dataclasses import dataclass
from html import escape

NAMESPACES = (
    'xmlns:podcast="https://podcastindex.org/namespace/1.0" xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"'
)

VTT = b"WEBVTT\n\n00:00.000 --> 00:01.000\n<v Ida>The kettle is slow today.\n"
SRT = b"1\n00:00:00,000 --> 00:00:01,000\nThe kettle was quick yesterday.\n"
JSON = b'{"segments": [{"speaker": "Ida", "startTime": 0, "endTime": 1, "body": "The kettle is gone."}]}'
CHAPTERS = b'{"version": "1.2.0", "chapters": [{"startTime": 0, "title": "Start"}, {"startTime": 63, "title": "The leak"}]}'
# Enough for a reader that goes by the first bytes.
AUDIO = b"ID3\x04" + bytes(range(256)) * 40


@dataclass(frozen=True)
class Entry:
    """An item of the feed."""

    number: int
    audio: str | None
    transcripts: tuple[tuple[str, str], ...] = ()
    """(address, type)"""
    chapters: str | None = None
    title: str = "The kettle"
    guid: str = ""
    length: int = len(AUDIO)

    @property
    def xml(self) -> str:
        tags = [
            f"<title>{escape(self.title)}</title>",
            f"<guid>{escape(self.guid or f'https://tea.example/?p={self.number}')}</guid>",
            f"<pubDate>{self.number:02} Mar 2024 08:00:00 GMT</pubDate>",
            f"<itunes:episode>{self.number}</itunes:episode>",
            "<description>&lt;p&gt;All about tea.&lt;/p&gt;</description>",
            *(f'<podcast:transcript url="{escape(url)}" type="{kind}"/>' for url, kind in self.transcripts),
        ]
        if self.audio is not None:
            tags.append(f'<enclosure url="{escape(self.audio)}" type="audio/mpeg" length="{self.length}"/>')
        if self.chapters is not None:
            tags.append(f'<podcast:chapters url="{escape(self.chapters)}" type="application/json+chapters"/>')
        return f"<item>{''.join(tags)}</item>"


def feed_xml(*entries: Entry) -> bytes:
    head = "<title>Tea talk</title><link>https://tea.example/</link><language>en</language>"
    items = "".join(entry.xml for entry in entries)
    text = f'<?xml version="1.0" encoding="UTF-8"?><rss version="2.0" {NAMESPACES}><channel>{head}{items}</channel></rss>'
    return text.encode()
