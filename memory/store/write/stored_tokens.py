"""Token vectors, and those of pieces, in the sidecar: written with a record, read for searches (STORE-3, GUARD-8).

They can be made again from the records at any time, so a store without them is whole: it is neither exported
nor repaired with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.embed.token_vectors import PackedTokens, TokenCodec, codec_for_embedder
from recall_loop.memory.store.encoding.indexing import kind_and_text
from recall_loop.memory.store.tables.database import AMONG_ROWS, Connection, Database, chunks, ids_json, set_meta
from recall_loop.memory.store.tables.record_queries import ThreadLinks, context_links
from recall_loop.memory.store.tables.row_memo import KnownTokens
from recall_loop.memory.store.write.text_embedding import embed_texts
from recall_loop.state.errors import UnsupportedOptionError

# Names the embedder and the projection of the stored tokens.
TOKENS_META_KEY = "tokens"
_OFF = "off"

_TOKENS = f"""SELECT t.rowid, t.vectors FROM tokens t JOIN records r ON r.rowid = t.rowid
WHERE r.tenant || '' = ? AND t.rowid {AMONG_ROWS}"""

_BODIES = f"""SELECT r.rowid, b.record FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.tenant || '' = ? AND r.rowid {AMONG_ROWS}"""

_ANY_BODIES = f"SELECT rowid, record FROM bodies WHERE rowid {AMONG_ROWS}"
_MISSING = "SELECT rowid FROM records WHERE rowid NOT IN (SELECT rowid FROM tokens) ORDER BY rowid"
_KEEP = "INSERT INTO tokens VALUES (?, ?) ON CONFLICT (rowid) DO UPDATE SET vectors = excluded.vectors"
_CHUNK = 256

_TENANTS_ROWS = f"SELECT rowid FROM records WHERE tenant || '' = ? AND rowid {AMONG_ROWS}"
_ALONE = (None, None)


class StoredTokens:
    """The token vectors of one tenant, as late interaction reads them; `known` are those that were read last.

    Rows of another tenant are never given, whatever is asked for.
    """

    def __init__(self, database: Database, tenant: str, codec: TokenCodec, known: KnownTokens | None = None) -> None:
        self.codec = codec
        self._sidecar, self._tenant = database, tenant
        self._known = KnownTokens() if known is None else known

    @cached_property
    def stored(self) -> bool:
        """Whether the store holds token vectors that were made with this embedder and projection."""
        return self._sidecar.meta().get(TOKENS_META_KEY) == self.codec.fingerprint

    def neighbours(self, rowids: Iterable[int]) -> ThreadLinks:
        """Return previous and next row of each message that stands in a thread, as far as they are its context."""
        found = self._known.links.read(rowids, self._read_links)
        return {rowid: pair for rowid, pair in found.items() if pair != _ALONE}

    def tokens(self, rowids: Iterable[int]) -> dict[int, PackedTokens]:
        """Return the stored vectors; none where the store holds those of another model or basis."""
        return self._known.tokens.read(rowids, self._read_tokens) if self.stored else {}

    def _read_links(self, rowids: list[int]) -> ThreadLinks:
        with self._sidecar.reading() as connection:
            mine = [row for (row,) in connection.execute(_TENANTS_ROWS, (self._tenant, ids_json(rowids)))]
            return dict.fromkeys(rowids, _ALONE) | context_links(connection, mine)

    def _read_tokens(self, rowids: list[int]) -> dict[int, PackedTokens]:
        found = self._sidecar.fetch(_TOKENS, (self._tenant, ids_json(rowids)))
        return {rowid: self.codec.unpack(vectors) for rowid, vectors in found}

    def texts(self, rowids: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Return kinds and index texts, whole."""
        found = self._sidecar.fetch(_BODIES, (self._tenant, ids_json(rowids)))
        return {rowid: kind_and_text(record) for rowid, record in found}


def active_codec(database: Database, embedder: Embedder) -> TokenCodec | None:
    """Return how token vectors are stored; None where the embedder gives none, or they were switched off."""
    return None if database.meta().get(TOKENS_META_KEY) == _OFF else codec_for_embedder(embedder)


def drop_stale_tokens(connection: Connection, codec: TokenCodec | None) -> None:
    """Drop token vectors of another embedder or projection, within a transaction, before new ones are written."""
    if note_tokens(connection, codec):
        connection.execute("DELETE FROM tokens")


def note_tokens(connection: Connection, codec: TokenCodec | None) -> bool:
    """Note how token vectors are stored from now on, unless they are switched off; return whether that is new."""
    wanted = "" if codec is None else codec.fingerprint
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (TOKENS_META_KEY,)).fetchone()
    stale = (found[0] if found else "") not in (wanted, _OFF)
    if stale:
        set_meta(connection, {TOKENS_META_KEY: wanted})
    return stale


def write_token_rows(connection: Connection, packed: Mapping[int, bytes | None]) -> None:
    """Write packed token vectors by rowid, within a transaction; None removes those of an earlier text."""
    kept = [(rowid, vectors) for rowid, vectors in packed.items() if vectors is not None]
    gone = [(rowid,) for rowid, vectors in packed.items() if vectors is None]
    connection.executemany(_KEEP, kept)
    connection.executemany("DELETE FROM tokens WHERE rowid = ?", gone)


def write_piece_rows(connection: Connection, made: Mapping[int, bytes]) -> None:
    """Write the vectors of pieces by rowid, within a transaction; b"" removes those of an earlier text."""
    connection.executemany("DELETE FROM pieces WHERE rowid = ?", [(rowid,) for rowid in made])
    kept = [(rowid, vectors) for rowid, vectors in made.items() if vectors]
    connection.executemany("INSERT INTO pieces VALUES (?, ?)", kept)


def disable_tokens(database: Database) -> None:
    """Drop all token vectors, and keep none from now on; see `Maintenance.drop_token_vectors`."""
    with database.transaction() as connection:
        connection.execute("DELETE FROM tokens")
        set_meta(connection, {TOKENS_META_KEY: _OFF})


def fill_missing_tokens(
    database: Database, embedder: Embedder, progress: Callable[[int, int], None] | None = None
) -> int:
    """Make the token vectors of all records that have none; see `Maintenance.make_token_vectors`."""
    codec = codec_for_embedder(embedder)
    if codec is None:
        raise UnsupportedOptionError("token_vectors", True, f"False: embedder {embedder.name} has no token vectors")
    with database.transaction() as connection:
        connection.execute("DELETE FROM meta WHERE key = ? AND value = ?", (TOKENS_META_KEY, _OFF))
        drop_stale_tokens(connection, codec)
        missing = [row for (row,) in connection.execute(_MISSING)]
    done = 0
    for part in chunks(missing, _CHUNK):
        with database.transaction() as connection:
            found = connection.execute(_ANY_BODIES, (ids_json(part),)).fetchall()
            texts = [kind_and_text(record) for _, record in found]
            embedded = embed_texts(embedder, codec, embedder.dimension, texts)
            write_token_rows(connection, dict(zip([rowid for rowid, _ in found], embedded.tokens, strict=True)))
            write_piece_rows(connection, dict(zip([rowid for rowid, _ in found], embedded.pieces, strict=True)))
        done += len(part)
        if progress is not None:
            progress(done, len(missing))
    return len(missing)
