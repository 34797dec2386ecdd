import os
import tomllib
from pathlib import Path

import pytest

from librarian_pipeline.errors import UsageError
from librarian_pipeline.settings import Settings, change_settings, known_keys, load_settings

# Each key that the contract documents: its default, and another value in TOML.
DOCUMENTED = {
    "whisper.model": ("base", '"tiny.en"'),
    "whisper.compute_type": ("int8", '"float32"'),
    "whisper.device": ("auto", '"cpu"'),
    "whisper.language": (None, '"cs"'),
    "transcripts.prefer": ("audio", '"published"'),
    "chunks.target_s": (45, "30.5"),
    "chunks.max_s": (60, "90.5"),
    "chunks.overlap_segments": (1, "0"),
    "normalizer.name": ("simplemma", '"snowball"'),
    "embeddings.model": ("joint-e5-minilm", '"char-ngram"'),
    "fusion.c": (60, "10"),
    "fusion.depth": (100, "50"),
    "fusion.dense_weight": (0.8, "0.7"),
    "fusion.language_centring": (0.5, "0.9"),
    "retrieval.default_mode": ("hybrid_cc", '"dense"'),
    "dagster.executor": ("in_process", '"multiprocess"'),
}


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch):
    for name in list(os.environ):
        if name.upper().startswith("LIBRARIAN_"):
            monkeypatch.delenv(name)


def write(home: Path, toml: str) -> Path:
    path = home / "librarian.toml"
    path.write_text(toml, encoding="utf-8")
    return path


def value(settings: Settings, key: str) -> object:
    section, name = key.split(".")
    return getattr(getattr(settings, section), name)


def complaint(home: Path) -> str:
    """The one line that says what is wrong with the settings."""
    with pytest.raises(UsageError) as caught:
        load_settings(home)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    return str(caught.value)


def toml_of(key: str, written: str) -> str:
    section, name = key.split(".")
    return f"[{section}]\n{name} = {written}\n"


@pytest.mark.parametrize("key", DOCUMENTED)
def test_without_a_file_each_key_has_its_documented_default(tmp_path, key):
    assert value(load_settings(tmp_path), key) == DOCUMENTED[key][0]


@pytest.mark.parametrize("key", DOCUMENTED)
def test_each_documented_key_can_be_set_in_the_file(tmp_path, key):
    write(tmp_path, toml_of(key, DOCUMENTED[key][1]))
    assert str(value(load_settings(tmp_path), key)) == DOCUMENTED[key][1].strip('"')


@pytest.mark.parametrize("key", DOCUMENTED)
def test_each_documented_key_can_be_set_in_the_environment(tmp_path, monkeypatch, key):
    written = DOCUMENTED[key][1].strip('"')
    monkeypatch.setenv(f"LIBRARIAN_{key.upper().replace('.', '__')}", written)
    assert str(value(load_settings(tmp_path), key)) == written


def test_every_documented_key_is_known():
    assert set(DOCUMENTED) <= set(known_keys())


@pytest.mark.parametrize("name", ["simplemma", "snowball", "suffix", "none"])
def test_each_documented_normaliser_is_allowed(tmp_path, name):
    write(tmp_path, toml_of("normalizer.name", f'"{name}"'))
    assert load_settings(tmp_path).normalizer.name == name


def test_the_environment_overrides_the_file(tmp_path, monkeypatch):
    write(tmp_path, toml_of("embeddings.model", '"char-ngram"'))
    monkeypatch.setenv("LIBRARIAN_EMBEDDINGS__MODEL", "all-MiniLM-L6-v2")
    assert load_settings(tmp_path).embeddings.model == "all-MiniLM-L6-v2"


def test_what_the_environment_leaves_out_of_a_section_comes_from_the_file(tmp_path, monkeypatch):
    write(tmp_path, "[chunks]\ntarget_s = 20\nmax_s = 30\n")
    monkeypatch.setenv("LIBRARIAN_CHUNKS__MAX_S", "40")
    chunks = load_settings(tmp_path).chunks
    assert (chunks.target_s, chunks.max_s, chunks.overlap_segments) == (20, 40, 1)


def test_an_empty_file_is_all_defaults(tmp_path):
    write(tmp_path, "")
    assert load_settings(tmp_path) == Settings()


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    write(tmp_path, "\ufeff" + toml_of("fusion.c", "10"))
    assert load_settings(tmp_path).fusion.c == 10


def test_settings_cannot_be_changed_once_read(tmp_path):
    with pytest.raises(ValueError, match="frozen"):
        load_settings(tmp_path).fusion.c = 10


@pytest.mark.parametrize(
    ("toml", "unknown", "nearest"),
    [
        ('[embeddings]\nmodle = "x"\n', "embeddings.modle", "embeddings.model"),
        ("[chunk]\nmax_s = 60\n", "chunk", "chunks"),
        ("[chunks]\noverlap = 2\n", "chunks.overlap", "chunks.overlap_segments"),
        ("depth = 3\n", "depth", ""),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_file_and_the_nearest_known_one(tmp_path, toml, unknown, nearest):
    path = write(tmp_path, toml)
    line = complaint(tmp_path)
    assert line.startswith(f"{path} has the unknown key {unknown}: did you mean ")
    assert nearest in line


@pytest.mark.parametrize(
    ("toml", "key", "what"),
    [
        ("[fusion]\nc = 0\n", "fusion.c = 0", "greater than or equal to 1"),
        ('[fusion]\nc = "many"\n', "fusion.c = 'many'", "integer"),
        ('[normalizer]\nname = "porter"\n', "normalizer.name = 'porter'", "'simplemma', 'snowball', 'suffix' or 'none'"),
        ('[dagster]\nexecutor = "k8s"\n', "dagster.executor = 'k8s'", "'in_process' or 'multiprocess'"),
        ('[whisper]\nlanguage = "English"\n', "whisper.language = 'English'", "match"),
        ('[whisper]\nmodel = ""\n', "whisper.model = ''", "at least 1"),
        ("[chunks]\ntarget_s = nan\n", "chunks.target_s = nan", "greater than 0"),
        ("[chunks]\nmax_s = [60]\n", "chunks.max_s", "number"),
        ("[chunks]\ntarget_s = 70\n", "chunks", "target_s (70) must not be above max_s (60)"),
        ("chunks = 3\n", "chunks = 3", "dictionary"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_file_the_key_and_what_is_allowed(tmp_path, toml, key, what):
    path = write(tmp_path, toml)
    line = complaint(tmp_path)
    assert line.startswith(f"{path}: {key}")
    assert what in line


@pytest.mark.parametrize("in_file", ["", "[fusion]\nc = 10\n"], ids=["not in the file", "right in the file"])
def test_a_wrong_value_of_the_environment_is_told_as_the_environments(tmp_path, monkeypatch, in_file):
    write(tmp_path, in_file)
    monkeypatch.setenv("LIBRARIAN_FUSION__C", "many")
    assert complaint(tmp_path).startswith("the environment: fusion.c = 'many'")


def test_a_wrong_value_of_the_file_is_told_as_the_files_even_where_the_environment_sets_another_key(tmp_path, monkeypatch):
    path = write(tmp_path, "[fusion]\nc = 0\n")
    monkeypatch.setenv("LIBRARIAN_FUSION__DEPTH", "50")
    assert complaint(tmp_path).startswith(f"{path}: fusion.c")


def test_a_whole_section_in_the_environment_that_is_no_json_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("LIBRARIAN_FUSION", "many")
    assert complaint(tmp_path).startswith("the environment sets a whole section")


def test_an_unknown_section_of_the_environment_is_an_error_that_names_the_nearest_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("LIBRARIAN_EMBEDING__MODEL", "x")
    line = complaint(tmp_path)
    assert line == "the environment sets the unknown LIBRARIAN_EMBEDING__MODEL: did you mean LIBRARIAN_EMBEDDINGS__MODEL?"


def test_an_unknown_key_of_the_environment_is_an_error_that_names_the_nearest_key(tmp_path, monkeypatch):
    monkeypatch.setenv("LIBRARIAN_EMBEDDINGS__MODLE", "x")
    assert complaint(tmp_path) == "the environment has the unknown key embeddings.modle: did you mean embeddings.model?"


@pytest.mark.parametrize("name", ["LIBRARIAN_HOME", "LIBRARIAN_CACHE", "LIBRARIANS"])
def test_variables_that_are_not_settings_are_left_alone(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "anything")
    assert load_settings(tmp_path) == Settings()


@pytest.mark.parametrize("content", [b"[fusion", b"c == 1", b"[fusion]\nc = 1\nc = 2\n", b'x = "\xe9"'])
def test_a_file_that_is_no_toml_is_one_line_that_names_it(tmp_path, content):
    (tmp_path / "librarian.toml").write_bytes(content)
    assert complaint(tmp_path).startswith(f"{tmp_path / 'librarian.toml'} is not valid TOML")


def test_a_folder_in_the_place_of_the_file_is_one_line_that_names_it(tmp_path):
    (tmp_path / "librarian.toml").mkdir()
    assert complaint(tmp_path).startswith(f"{tmp_path / 'librarian.toml'} can't be read")


# Changes for one command


def test_changes_override_the_environment_which_overrides_the_file(tmp_path, monkeypatch):
    write(tmp_path, "[chunks]\ntarget_s = 20\nmax_s = 30\n[fusion]\nc = 1\ndepth = 1\n")
    monkeypatch.setenv("LIBRARIAN_CHUNKS__MAX_S", "40")
    monkeypatch.setenv("LIBRARIAN_FUSION__DEPTH", "2")
    changed = change_settings(load_settings(tmp_path), {"fusion.depth": 3, "chunks.overlap_segments": 0}, "--set")
    assert (changed.fusion.c, changed.fusion.depth) == (1, 3)
    assert (changed.chunks.target_s, changed.chunks.max_s, changed.chunks.overlap_segments) == (20, 40, 0)


@pytest.mark.parametrize("key", DOCUMENTED)
def test_a_change_gives_what_the_file_gives(tmp_path, key):
    write(tmp_path, toml_of(key, DOCUMENTED[key][1]))
    changed = tomllib.loads(f"value = {DOCUMENTED[key][1]}")["value"]
    assert change_settings(Settings(), {key: changed}, "--set") == load_settings(tmp_path)


def test_changes_that_are_right_only_together_are_taken_together():
    changed = change_settings(Settings(), {"chunks.target_s": 90, "chunks.max_s": 120}, "--set")
    assert (changed.chunks.target_s, changed.chunks.max_s) == (90, 120)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"embeddings.modle": "x"}, "--set has the unknown key embeddings.modle: did you mean embeddings.model?"),
        ({"chunk.max_s": 60}, "--set has the unknown key chunk.max_s: did you mean chunks.max_s?"),
        ({"model": "x"}, "--set has the unknown key model: did you mean"),
        ({"fusion.c": 0}, "--set: fusion.c = 0: Input should be greater than or equal to 1"),
        ({"normalizer.name": "porter"}, "--set: normalizer.name = 'porter': Input should be 'simplemma', "),
        ({"chunks.target_s": 90}, "--set: chunks: target_s (90) must not be above max_s (60)"),
    ],
)
def test_a_wrong_change_is_one_line_that_names_it(monkeypatch, changes, said):
    monkeypatch.setenv("LIBRARIAN_FUSION__C", "10")
    with pytest.raises(UsageError) as caught:
        change_settings(Settings(), changes, "--set")
    assert str(caught.value).startswith(said)
