"""Embedders: real vectors, checked files, a real HTTP endpoint on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from recall_loop.memory.store import embeddings
from recall_loop.memory.store.embeddings import Embedder, MiniLmEmbedder, OpenAIEmbedder, make_embedder
from recall_loop.state.errors import EmbedderError, InvalidInputError
from recall_loop.state.settings import Settings


def test_vectors_are_unit_float32_and_near_for_near_meanings(embedder):
    """Proves: STORE-5."""
    vectors = embedder.embed_documents(["A dog runs in the park", "A puppy plays outside", "Quarterly tax forms"])
    assert isinstance(embedder, Embedder)
    assert vectors.shape == (3, embedder.dimension) and vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.3


def test_a_text_has_the_same_vector_in_any_batch_and_thread(embedder):
    """Proves: STORE-5."""
    texts = [f"{'word ' * (i % 40)}number {i}" for i in range(40)]
    together = embedder.embed_documents(texts)
    with ThreadPoolExecutor(4) as pool:
        alone = np.vstack(list(pool.map(lambda text: embedder.embed_queries([text]), texts)))
    assert np.allclose(together, alone, atol=1e-4)


def test_no_text_gives_no_rows(embedder):
    """Proves: STORE-5."""
    assert embedder.embed_documents([]).shape == (0, 384)


def test_long_text_is_cut_and_odd_text_embeds(embedder):
    """Proves: STORE-5."""
    vectors = embedder.embed_documents(["a " * 5000, "a " * 9000, "\x01\x02", "हिन्दी 😀"])
    assert np.allclose(vectors[0], vectors[1], atol=1e-5)
    assert np.isfinite(vectors).all()


def test_a_changed_file_is_refused(tmp_path):
    """Proves: STORE-5."""
    file = tmp_path / "model.onnx"
    file.write_bytes(b"something else")
    with pytest.raises(EmbedderError, match=r"model\.onnx has sha256"):
        embeddings._check(file, embeddings.MODEL_SHA256)
    with pytest.raises(EmbedderError, match="can't be read"):
        embeddings._check(tmp_path / "none", embeddings.MODEL_SHA256)


def test_importing_the_store_loads_neither_chroma_nor_onnxruntime():
    """Proves: STORE-5."""
    code = (
        "import sys, recall_loop.memory.store\n"
        "assert not {'chromadb', 'onnxruntime', 'tokenizers', 'langchain_openai'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_settings_choose_the_embedder():
    """Proves: STORE-5."""
    assert isinstance(make_embedder(Settings()), MiniLmEmbedder)
    made = make_embedder(Settings(embedder="openai", openai_model="some-model"))
    assert made.fingerprint == "openai:some-model"


class _Endpoint(BaseHTTPRequestHandler):
    """Answers like an embeddings endpoint: two numbers per text, un-normalised."""

    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = given["input"]
        if "fail" in texts:
            self.send_error(400)
            return
        rows = [{"object": "embedding", "index": i, "embedding": [3.0, 4.0 + len(t)]} for i, t in enumerate(texts)]
        body = json.dumps({"object": "list", "data": rows, "model": given["model"], "usage": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_is_asked_with_text_and_its_vectors_are_normalised(endpoint):
    """Proves: STORE-5."""
    made = OpenAIEmbedder("m", endpoint, "sk-local")
    vectors = made.embed_documents(["", "abc"])
    assert made.dimension == 2 and isinstance(made, Embedder)
    assert np.allclose(vectors[0], [0.6, 0.8]) and np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert made.embed_queries([]).shape == (0, 2)


def test_a_failing_endpoint_and_a_wrong_length_are_typed_errors(endpoint):
    """Proves: STORE-5."""
    with pytest.raises(EmbedderError, match="openai:m"):
        OpenAIEmbedder("m", endpoint, "sk-local").embed_documents(["fail"])
    with pytest.raises(EmbedderError, match="expected"):
        OpenAIEmbedder("m", endpoint, "sk-local", dimension=3).embed_documents(["text"])
    with pytest.raises(InvalidInputError, match="openai_model"):
        OpenAIEmbedder("  ")
