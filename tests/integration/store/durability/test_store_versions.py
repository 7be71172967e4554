"""Stores that an earlier version of their embedder filled (STORE-5, OPEN-4)."""

from __future__ import annotations

import numpy as np
import pytest

from recall_loop import Memory
from recall_loop.cli.main import main
from recall_loop.graph.batch.batch_engines import multiprocess_blocker
from recall_loop.graph.batch.batch_requests import RunOptions
from recall_loop.memory.store.embed.embedders import embedder_of_version
from recall_loop.memory.store.embed.minilm import GLOSSES, MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import EmbedderMismatchError
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder

EARLIER = MiniLmEmbedder(glosses=0)
RECORDS = [
    {"id": "de", "kind": "message", "role": "user", "text": "Meine Schwester verträgt keine Nüsse."},
    {"id": "en", "kind": "message", "role": "user", "text": "The ferry leaves at nine."},
]


@pytest.fixture
def earlier_store(tmp_path):
    """A store as the version without glosses wrote it."""
    with MemoryStore.open(tmp_path / "s", embedder=EARLIER) as store:
        store.upsert(RECORDS)
    return tmp_path / "s"


def test_a_store_of_each_version_is_read_by_its_own(tmp_path, embedder):
    """Italian has had glosses since the second version. Proves: STORE-5, OPEN-4."""
    text = "Mia sorella non sopporta le noci."
    vectors = []
    for version in range(GLOSSES + 1):
        made = MiniLmEmbedder(glosses=version)
        with MemoryStore.open(tmp_path / str(version), embedder=made) as store:
            store.upsert([{**RECORDS[0], "text": text}])
        with MemoryStore.open(tmp_path / str(version), embedder=embedder) as store:
            assert store.embedder.fingerprint == made.fingerprint
            vectors.append(store.embedder.embed_queries([text])[0])
    asked = embedder.embed_queries(["What is my sister allergic to?"])[0]
    assert np.array_equal(vectors[0], vectors[1])
    assert vectors[2] @ asked > vectors[1] @ asked + 0.1


def test_a_text_in_another_language_lies_near_to_its_meaning(embedder):
    """Proves: OPEN-4."""
    asked = embedder.embed_queries(["What is my sister allergic to?", "Was verträgt meine Schwester nicht?"])
    said = embedder.conversational.embed_documents([record["text"] for record in RECORDS])
    plain = EARLIER.conversational.embed_documents([record["text"] for record in RECORDS])
    assert np.array_equal(said[1], plain[1])
    assert said[0] @ asked[0] > plain[0] @ asked[0] + 0.15
    assert said[0] @ asked[1] > said[1] @ asked[1] + 0.3
    assert np.allclose(np.linalg.norm(said, axis=1), 1, atol=1e-5)


def test_a_batch_of_several_languages_has_the_vectors_and_tokens_of_each_text_alone(embedder):
    """Proves: STORE-5, OPEN-4."""
    texts = ["Der Hund schläft.", "A dog sleeps.", "Собака спит.", "狗在睡觉。", "¿Y?", "Le chien dort."]
    vectors, tokens = embedder.embed_documents_with_tokens(texts)
    assert vectors.shape == (len(texts), embedder.dimension) and len(tokens) == len(texts)
    for row, text in enumerate(texts):
        (alone,), (own,) = embedder.embed_documents_with_tokens([text])
        assert np.allclose(vectors[row], alone, atol=2e-3)
        assert tokens[row].shape == own.shape


def test_a_store_keeps_the_version_that_filled_it(earlier_store, embedder):
    """Proves: STORE-5."""
    for read_only in (False, True):
        with MemoryStore.open(earlier_store, embedder=embedder, read_only=read_only) as store:
            assert store.embedder.fingerprint == EARLIER.fingerprint != embedder.fingerprint
            if not read_only:
                store.upsert([{**RECORDS[0], "id": "again"}])
            assert multiprocess_blocker(store, RunOptions(Settings(store_path=str(earlier_store)))) is None
    with pytest.raises(EmbedderMismatchError):
        MemoryStore.open(earlier_store, embedder=WordHashEmbedder())


def test_embedded_again_it_has_the_version_of_today(earlier_store, embedder, capsys):
    """Proves: STORE-5, OPEN-4."""
    asked = "What is my sister allergic to?"
    assert main(["store", "info", "--store", str(earlier_store)]) == 0
    assert "an earlier version" in capsys.readouterr().out
    with MemoryStore.open(earlier_store, read_only=True) as reader:
        assert main(["store", "rebuild", "--store", str(earlier_store), "--re-embed"]) == 0
        capsys.readouterr()
        assert reader.count() == 2
        assert reader.embedder.fingerprint == embedder.fingerprint
    with MemoryStore.open(earlier_store) as store:
        assert Memory(store=store).search(asked)[0].record.id == "de"
    assert main(["store", "info", "--store", str(earlier_store)]) == 0
    assert "an earlier version" not in capsys.readouterr().out


def test_only_versions_of_the_same_embedder_are_taken_for_it(embedder):
    """Proves: STORE-5."""
    assert embedder_of_version(embedder, embedder.fingerprint) is embedder
    assert embedder_of_version(embedder, MiniLmEmbedder(None).fingerprint) is None
    assert embedder_of_version(WordHashEmbedder(), EARLIER.fingerprint) is None
