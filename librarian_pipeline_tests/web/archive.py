"""A small archive to search in a browser: one episode can be listened to, another one's people say hostile things."""

import shutil
from html import escape
from pathlib import Path

from librarian_pipeline_tests.conftest import SAMPLE
from librarian_pipeline_tests.pipeline.small_archive import SENTENCES, add_notes, add_published, write_gold
from librarian_pipeline_tests.pipeline.updating import bring

SETTINGS = """
[embeddings]
model = "char-ngram"

[audio]
settle_s = 0

[transcripts]
prefer = "published"

[chunks]
target_s = 8
max_s = 16
overlap_segments = 0

[evaluation]
bootstrap_resamples = 100
"""
HEARD, HOSTILE, LONG = "heard", "hostile", "long"
SAYS = (
    "The zanzibar <script>window.hurt = 1</script> was loud.",
    'A zanzibar "><img src=https://elsewhere.example/x onerror="window.hurt = 2"> came.',
    "The zanzibar \u202eesrever\u202c and \u2066more\u2069 text.",
    "Some zanzibar {{ 7 * 7 }} and &lt;b&gt; and javascript:alert(1).",
)
MATCH, MATCH_S = "owl mouse snow", 16
"""A query, and the second of the recording at which its words are said."""
LONG_SENTENCES = 50


def web_archive(home: Path) -> Path:
    """Derived and published; `HEARD` has a recording of a minute and a half in Opus."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "librarian.toml").write_text(SETTINGS)
    add_published(home, HEARD, SENTENCES)
    add_notes(home, HEARD, "An owl, a bell and a clock.", title="'Owls & <b>bells</b>'")
    (home / "audio").mkdir()
    shutil.copy2(SAMPLE / "audio" / "ep03.opus", home / "audio" / f"{HEARD}.opus")
    add_published(home, HOSTILE, [escape(text, quote=False) for text in SAYS])  # WebVTT's own escapes
    add_published(home, LONG, [f"Sentence number {number} of a long evening." for number in range(LONG_SENTENCES)])
    write_gold(home, {"q1": ("who counted the grain", HEARD)})
    assert bring(home).errors == {}
    return home
