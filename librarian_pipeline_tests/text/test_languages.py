import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from librarian_pipeline.text.languages import detect_language, parse_language


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("We left the kettle on the stove and went out to look for the cat.", "en"),
        ("Nechali jsme konvici na kamnech a šli jsme ven hledat kočku.", "cs"),
        ("Wir haben den Kessel auf dem Herd gelassen und die Katze gesucht.", "de"),
        ("我们把水壶放在炉子上然后出去找猫", "zh"),
    ],
)
def test_the_language_of_a_sentence_is_detected(text: str, code: str) -> None:
    assert detect_language(text) == code


@pytest.mark.parametrize("text", ["", "   ", "ok", "ok yes", "12 34 56 78", "?! ... –"])
def test_text_of_fewer_than_three_words_is_undetermined(text: str) -> None:
    assert detect_language(text) == "und"


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=80))
def test_any_text_gets_a_two_letter_code_or_und(text: str) -> None:
    code = detect_language(text)
    assert code == "und" or (len(code) == 2 and code.isascii() and code.islower())


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("en", "en"),
        (" EN ", "en"),
        ("en-GB", "en"),
        ("cs_CZ", "cs"),
        ("zh-Hant-TW", "zh"),
        ("Čeština", "cs"),
        ("cz", "cs"),
        ("ger", "de"),
    ],
)
def test_a_language_is_understood_however_people_write_it(written: str, code: str) -> None:
    assert parse_language(written) == code


@pytest.mark.parametrize("written", ["", "Klingonese", "e", "en fr", "12", "english-ish"])
def test_an_unknown_language_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="write a two-letter code"):
        parse_language(written)


def test_the_model_is_not_loaded_before_it_is_used() -> None:
    script = "import sys, librarian_pipeline.text.languages; sys.exit('py3langid' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
