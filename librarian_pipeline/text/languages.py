"""Which language a text is in, as ISO 639-1 codes."""

import functools
import re
from typing import Any

UNDETERMINED = "und"

_MIN_WORDS = 3
# Detection has settled long before this many characters.
_ENOUGH_CHARACTERS = 10_000
# A sign of a script without spaces counts as a word of its own.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]+")
_CODE = re.compile(r"([a-z]{2})(?:[-_][a-z0-9]+)*")
_CODES_BY_NAME = {
    name: code
    for code, names in {
        "cs": "cz czech čeština česky ces cze",
        "da": "danish dansk dan",
        "de": "german deutsch deu ger",
        "en": "english eng",
        "es": "spanish español spa",
        "fi": "finnish suomi fin",
        "fr": "french français fra fre",
        "hu": "hungarian magyar hun",
        "it": "italian italiano ita",
        "ja": "japanese 日本語 jpn",
        "nl": "dutch nederlands nld dut",
        "no": "norwegian norsk nor",
        "pl": "polish polski pol",
        "pt": "portuguese português por",
        "ru": "russian русский rus",
        "sk": "slovak slovenčina slovensky slk slo",
        "sv": "swedish svenska swe",
        "uk": "ukrainian українська ukr",
        "zh": "chinese 中文 zho chi",
    }.items()
    for name in names.split()
}


def parse_language(text: str) -> str:
    """The ISO 639-1 code of a language as people write it: `en`, `en-US`, `English`, `čeština`.

    Raises `ValueError` for a name it doesn't know.
    """
    name = text.strip().lower()
    match = _CODE.fullmatch(name)
    code = match[1] if match else name
    if match is None and code not in _CODES_BY_NAME:
        raise ValueError(f"{text!r} is not a language: write a two-letter code such as en or cs")
    return _CODES_BY_NAME.get(code, code)


def detect_language(text: str) -> str:
    """The ISO 639-1 code of the text's language; `und` where it has fewer than three words."""
    sample = text[:_ENOUGH_CHARACTERS]
    if len(_WORD.findall(sample)) < _MIN_WORDS:
        return UNDETERMINED
    language, _ = _identifier().classify(sample)
    return str(language)


@functools.cache
def _identifier() -> Any:
    # Loading the model takes half a second. It is an instance of our own because py3langid's functions share one that
    # anybody can restrict; and it is held to two-letter codes, since short text otherwise comes out as Kabyle and the like.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages([label for label in identifier.labels if len(label) == 2])
    return identifier
