"""Token vectors: from the same run of the model, small in the store, and never another tenant's."""

from __future__ import annotations

import hashlib
import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_loop.memory.store.embed import token_vectors
from recall_loop.memory.store.embed.embedders import TokenEmbedder
from recall_loop.memory.store.embed.token_vectors import PackedTokens, TokenCodec, codec_for_embedder, load_basis
from recall_loop.memory.store.write import stored_tokens
from recall_loop.memory.store.write.stored_tokens import StoredTokens
from recall_loop.memory.store.write.text_embedding import embed_texts
from recall_loop.state.errors import EmbedderError, InvalidInputError
from tests.embedders import WordHashEmbedder

TEXTS = ["Ann: My sister adopted a puppy!", "…", "", "word " * 400]


def floats(packed: PackedTokens) -> np.ndarray:
    """The vectors of a text's tokens, float32 [t, D], of length one but for rounding."""
    return packed.values.astype(np.float32) * np.float32(packed.scale)


def test_tokens_come_with_the_same_vectors(embedder):
    """Proves: STORE-5, SEARCH-5."""
    vectors, tokens = embedder.embed_documents_with_tokens(TEXTS)
    assert isinstance(embedder, TokenEmbedder) and not isinstance(WordHashEmbedder(), TokenEmbedder)
    assert np.array_equal(vectors, embedder.embed_documents(TEXTS))
    assert [len(matrix) for matrix in tokens] == [6, 0, 0, 254]
    for matrix in tokens:
        assert matrix.dtype == np.float32 and matrix.shape[1] == embedder.token_dimension
        assert np.allclose(np.linalg.norm(matrix, axis=1), 1, atol=1e-5)
    assert embedder.embed_queries_with_tokens([])[1] == []


def test_the_basis_is_the_one_that_is_named(monkeypatch, tmp_path):
    """Proves: STORE-5."""
    basis = load_basis()
    assert basis.shape == (384, 96)
    assert np.allclose(basis.T @ basis, np.eye(96), atol=5e-3)
    assert hashlib.sha256(token_vectors.BASIS_FILE.read_bytes()).hexdigest() == token_vectors.BASIS_SHA256
    wrong = tmp_path / "token-basis.npy"
    wrong.write_bytes(b"something else")
    monkeypatch.setattr(token_vectors, "BASIS_FILE", wrong)
    load_basis.cache_clear()
    with pytest.raises(EmbedderError, match=r"token-basis\.npy has sha256"):
        load_basis()
    monkeypatch.setattr(token_vectors, "BASIS_FILE", tmp_path / "none")
    with pytest.raises(EmbedderError, match="can't be read"):
        load_basis()


def test_packing_hardly_changes_cosines_and_takes_96_bytes_a_token(embedder):
    """Proves: SEARCH-5."""
    codec = codec_for_embedder(embedder)
    tokens = embedder.embed_documents_with_tokens([TEXTS[0], "Ben: Its name is Biscuit."])[1]
    exact = [codec.project(matrix) for matrix in tokens]
    packed = [codec.pack(matrix) for matrix in tokens]
    assert [len(data) for data in packed] == [11 + 96 * len(matrix) for matrix in tokens]
    back = [floats(codec.unpack(data)) for data in packed]
    assert np.allclose(exact[0] @ exact[1].T, back[0] @ back[1].T, atol=0.01)
    assert codec.fingerprint.startswith(embedder.fingerprint) and codec.width == 96


@pytest.mark.parametrize("count", [0, 1, 5, 6, 7, 39, 254])
def test_a_projection_of_any_length_is_the_plain_product(count, embedder):
    """Proves: SEARCH-5."""
    codec = codec_for_embedder(embedder)
    tokens = np.random.default_rng(count).standard_normal((count, codec.dimension)).astype(np.float32)
    plain = tokens.astype(np.float64) @ codec.basis.astype(np.float64)
    plain /= np.linalg.norm(plain, axis=1, keepdims=True)
    assert np.allclose(codec.project(tokens), plain, atol=1e-6)


@given(st.integers(0, 9), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_pack_and_unpack_agree_for_any_embedder(count, width, seed):
    """Proves: SEARCH-5."""
    codec = TokenCodec(width, None, "any")
    tokens = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    back = floats(codec.unpack(codec.pack(tokens)))
    assert back.shape == (count, width)
    assert np.allclose(back, codec.project(tokens), atol=1 / 250)


@given(st.binary(max_size=40))
def test_other_bytes_are_refused(data):
    """Proves: SEARCH-5."""
    with pytest.raises(InvalidInputError, match="tokens"):
        TokenCodec(7, None, "any").unpack(b"\x09" + data)


@pytest.mark.parametrize("wrong", [np.zeros(7), np.zeros((2, 6)), np.full((1, 7), np.nan)])
def test_wrong_token_vectors_are_refused(wrong):
    """Proves: STORE-5."""
    with pytest.raises(EmbedderError, match="token vectors of shape"):
        TokenCodec(7, None, "any").pack(wrong)


class OwnTokens(WordHashEmbedder):
    """An embedder of somebody's own that gives token vectors."""

    name, fingerprint, token_dimension = "own", "own:1", 32

    def embed_documents_with_tokens(self, texts):
        return self.embed_documents(texts), [self.embed_documents(text.split()) for text in texts]

    embed_queries_with_tokens = embed_documents_with_tokens


class TooMany(OwnTokens):
    """Gives one matrix too many."""

    def embed_documents_with_tokens(self, texts):
        vectors, tokens = super().embed_documents_with_tokens(texts)
        return vectors, [*tokens, tokens[0]]


def test_each_embedder_has_its_own_format(embedder):
    """Proves: STORE-5."""
    own = codec_for_embedder(OwnTokens())
    assert own.basis is None and own.width == 32 and own.fingerprint != codec_for_embedder(embedder).fingerprint
    assert codec_for_embedder(WordHashEmbedder()) is None
    made = embed_texts(WordHashEmbedder(), None, 32, [("fact", "a"), ("message", "b")])
    assert made.vectors.shape == (2, 32) and made.tokens == [None, None] and made.pieces == [b"", b""]
    with pytest.raises(EmbedderError, match="of 3 texts; asked for 2"):
        embed_texts(TooMany(), own, 32, [("fact", "a"), ("fact", "b")])


def prepared(store, codec) -> dict[str, int]:
    """Give the store its table and the tokens of all its records; return rowids by id."""
    with store._session.database.transaction() as connection:
        rows = connection.execute("SELECT rowid, id FROM records").fetchall()
        texts = StoredTokens(store._session.database, "one", codec).texts(row for row, _ in rows)
        texts |= StoredTokens(store._session.database, "two", codec).texts(row for row, _ in rows)
        packed = embed_texts(store.embedder, codec, store.dimension, [texts[row] for row, _ in rows]).tokens
        stored_tokens.drop_stale_tokens(connection, codec)
        stored_tokens.write_token_rows(connection, dict(zip((row for row, _ in rows), packed, strict=True)))
    return {name: row for row, name in rows}


def test_stored_tokens_are_read_back_within_the_tenant(store):
    """Proves: STORE-3, SEARCH-4."""
    codec = codec_for_embedder(store.embedder)
    talk = [
        {"id": f"m{n}", "kind": "message", "text": f"turn {n}", "author": "Ann", "session": "s", "position": n}
        for n in range(3)
    ]
    store.upsert(talk, tenant="one")
    store.upsert([{**talk[1], "id": "theirs"}], tenant="two")
    rows = prepared(store, codec)
    mine, theirs = (
        StoredTokens(store._session.database, "one", codec),
        StoredTokens(store._session.database, "two", codec),
    )
    assert mine.tokens(rows.values()).keys() == {rows[name] for name in ("m0", "m1", "m2")}
    assert theirs.tokens(rows.values()).keys() == theirs.texts(rows.values()).keys() == {rows["theirs"]}
    assert mine.texts([rows["m1"]]) == {rows["m1"]: ("message", "Ann: turn 1")}
    assert mine.neighbours([rows["m1"]]) == {rows["m1"]: (rows["m0"], rows["m2"])}
    assert not theirs.neighbours([rows["m1"]])
    again = store.embedder.conversational.embed_documents_with_tokens(["Ann: turn 1"])[1][0]
    assert np.allclose(floats(mine.tokens([rows["m1"]])[rows["m1"]]), codec.project(again), atol=0.03)


def test_tokens_of_another_model_are_not_used_and_dropped_by_the_next_write(store):
    """Proves: STORE-5, SEARCH-5."""
    codec = codec_for_embedder(store.embedder)
    store.upsert([{"id": "a", "kind": "fact", "text": "a puppy"}], tenant="one")
    rows = prepared(store, codec)
    other = TokenCodec(codec.dimension, codec.basis, "another")
    assert StoredTokens(store._session.database, "one", other).tokens(rows.values()) == {}
    with store._session.database.transaction() as connection:
        stored_tokens.write_token_rows(connection, {rows["a"]: None})
        assert count(connection) == 0
        stored_tokens.write_token_rows(connection, {rows["a"]: b"old"})
        stored_tokens.drop_stale_tokens(connection, codec)
        assert count(connection) == 1
        stored_tokens.drop_stale_tokens(connection, other)
        assert count(connection) == 0
    assert StoredTokens(store._session.database, "one", codec).tokens(rows.values()) == {}


def count(connection: sqlite3.Connection) -> int:
    return connection.execute("SELECT count(*) FROM tokens").fetchone()[0]
