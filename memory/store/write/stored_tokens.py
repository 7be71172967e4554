"""Token vectors in the sidecar: written with a record, read for the pool that is reranked (STORE-3).

They can be made again from the records at any time, so a store without them is whole: it is neither exported
nor repaired with them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from recall_loop.memory.store.embed.embedders import Embedder, TokenEmbedder, group_by_model, validate_vectors
from recall_loop.memory.store.embed.token_vectors import PackedTokens, TokenCodec, codec_for_embedder
from recall_loop.memory.store.encoding.indexing import kind_and_text
from recall_loop.memory.store.sqlite.record_queries import ThreadLinks, context_links
from recall_loop.memory.store.sqlite.sqlite_store import ids_json, set_meta
from recall_loop.state.errors import EmbedderError, UnsupportedOptionError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recall_loop.memory.store.sqlite.sqlite_store import SqliteDatabase

# Names the embedder and the projection of the stored tokens.
TOKENS_META_KEY = "tokens"
_OFF = "off"

_TOKENS = """SELECT t.rowid, t.vectors FROM tokens t JOIN records r ON r.rowid = t.rowid
WHERE +r.tenant = ? AND t.rowid IN (SELECT value FROM json_each(?))"""

_BODIES = """SELECT r.rowid, b.record FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE +r.tenant = ? AND r.rowid IN (SELECT value FROM json_each(?))"""

_ANY_BODIES = "SELECT rowid, record FROM bodies WHERE rowid IN (SELECT value FROM json_each(?))"
_MISSING = "SELECT rowid FROM records WHERE rowid NOT IN (SELECT rowid FROM tokens) ORDER BY rowid"
_CHUNK = 256

_TENANTS_ROWS = "SELECT rowid FROM records WHERE +tenant = ? AND rowid IN (SELECT value FROM json_each(?))"


class StoredTokens:
    """The token vectors of one tenant, as late interaction reads them; holds nothing itself.

    Rows of another tenant are never given, whatever is asked for.
    """

    def __init__(self, database: SqliteDatabase, tenant: str, codec: TokenCodec) -> None:
        self.codec = codec
        self._sidecar, self._tenant = database, tenant

    @cached_property
    def stored(self) -> bool:
        """Whether the store holds token vectors that were made with this embedder and projection."""
        known = self._sidecar.meta().get(TOKENS_META_KEY)
        return known == self.codec.fingerprint and self._sidecar.has_table("tokens")

    def neighbours(self, rowids: Iterable[int]) -> ThreadLinks:
        """Return previous and next row of each message that stands in a thread, as far as they are its context.

        Raises:
            StoreUnavailableError: the sidecar can't be read; so for the other methods.
        """
        with self._sidecar.reading() as connection:
            mine = [row for (row,) in connection.execute(_TENANTS_ROWS, (self._tenant, ids_json(rowids)))]
            return context_links(connection, mine)

    def tokens(self, rowids: Iterable[int]) -> dict[int, PackedTokens]:
        """Return the stored vectors; none where the store holds those of another model or basis."""
        if not self.stored:
            return {}
        found = self._sidecar.fetch(_TOKENS, (self._tenant, ids_json(rowids)))
        return {rowid: self.codec.unpack(vectors) for rowid, vectors in found}

    def texts(self, rowids: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Return kinds and index texts, whole."""
        found = self._sidecar.fetch(_BODIES, (self._tenant, ids_json(rowids)))
        return {rowid: kind_and_text(record) for rowid, record in found}


def active_codec(database: SqliteDatabase, embedder: Embedder) -> TokenCodec | None:
    """Return how token vectors are stored; None where the embedder gives none, or they were switched off.

    Raises:
        EmbedderError: the projection's file is missing or damaged.
        StoreUnavailableError: the sidecar can't be read.
    """
    return None if database.meta().get(TOKENS_META_KEY) == _OFF else codec_for_embedder(embedder)


def embed_with_tokens(
    embedder: Embedder, codec: TokenCodec | None, dimension: int, texts: Sequence[tuple[str, str]]
) -> tuple[NDArray[np.float32], list[bytes | None]]:
    """Return vectors [n, dimension], and for each text its packed token vectors, from one run of the model.

    Without a codec (the embedderhas no token vectors, or they aren't wanted) the list holds None. Where
    the embedder has a conversational one, texts go to two models.

    Args:
        embedder: makes the vectors.
        codec: how token vectors are stored.
        dimension: length of a vector.
        texts: each record's kind and index text.

    Raises:
        EmbedderError: the embedder fails, or gives vectors of another length, number or NaN.
    """
    import numpy as np

    vectors = np.zeros((len(texts), dimension), dtype=np.float32)
    packed: list[bytes | None] = [None] * len(texts)
    for model, rows in group_by_model(embedder, [kind for kind, _ in texts]):
        vectors[rows], tokens = _embedded(model, codec, dimension, [texts[row][1] for row in rows])
        for row, matrix in zip(rows, tokens, strict=True):
            packed[row] = matrix
    return vectors, packed


def _embedded(
    embedder: Embedder, codec: TokenCodec | None, dimension: int, texts: Sequence[str]
) -> tuple[NDArray[np.float32], list[bytes | None]]:
    if codec is None or not isinstance(embedder, TokenEmbedder):
        return validate_vectors(embedder, embedder.embed_documents(texts), len(texts), dimension), [None] * len(texts)
    vectors, tokens = embedder.embed_documents_with_tokens(texts)
    if len(tokens) != len(texts):
        raise EmbedderError(f"{embedder.name}: token vectors of {len(tokens)} texts; asked for {len(texts)}")
    return validate_vectors(embedder, vectors, len(texts), dimension), [codec.pack(matrix) for matrix in tokens]


def drop_stale_tokens(connection: sqlite3.Connection, codec: TokenCodec | None) -> None:
    """Drop token vectors of another embedder or projection, within a transaction, before new ones are written."""
    wanted = "" if codec is None else codec.fingerprint
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (TOKENS_META_KEY,)).fetchone()
    if (found[0] if found else "") not in (wanted, _OFF):
        connection.execute("DELETE FROM tokens")
        set_meta(connection, {TOKENS_META_KEY: wanted})


def write_token_rows(connection: sqlite3.Connection, packed: Mapping[int, bytes | None]) -> None:
    """Write packed token vectors by rowid, within a transaction; None removes those of an earlier text."""
    kept = [(rowid, vectors) for rowid, vectors in packed.items() if vectors is not None]
    gone = [(rowid,) for rowid, vectors in packed.items() if vectors is None]
    connection.executemany("INSERT OR REPLACE INTO tokens VALUES (?, ?)", kept)
    connection.executemany("DELETE FROM tokens WHERE rowid = ?", gone)


def disable_tokens(database: SqliteDatabase) -> None:
    """Drop all token vectors, and keep none from now on; see `Maintenance.drop_token_vectors`."""
    with database.transaction() as connection:
        connection.execute("DELETE FROM tokens")
        set_meta(connection, {TOKENS_META_KEY: _OFF})


def fill_missing_tokens(
    database: SqliteDatabase, embedder: Embedder, progress: Callable[[int, int], None] | None = None
) -> int:
    """Make the token vectors of all records that have none; see `Maintenance.make_token_vectors`."""
    codec = codec_for_embedder(embedder)
    if codec is None:
        raise UnsupportedOptionError("token_vectors", True, f"False: embedder {embedder.name}has no token vectors")
    with database.transaction() as connection:
        connection.execute("DELETE FROM meta WHERE key = ? AND value = ?", (TOKENS_META_KEY, _OFF))
        drop_stale_tokens(connection, codec)
        missing = [row for (row,) in connection.execute(_MISSING)]
    for start in range(0, len(missing), _CHUNK):
        part = missing[start : start + _CHUNK]
        with database.transaction() as connection:
            found = connection.execute(_ANY_BODIES, (ids_json(part),)).fetchall()
            texts = [kind_and_text(record) for _, record in found]
            packed = embed_with_tokens(embedder, codec, embedder.dimension, texts)[1]
            write_token_rows(connection, dict(zip([rowid for rowid, _ in found], packed, strict=True)))
        if progress is not None:
            progress(start + len(part), len(missing))
    return len(missing)
