"""Vectors of another embedder on their way into a store: kept aside chunk by chunk, until all are there (OPEN-3).

They stand in a table of their own, `reembedded`, which is made when embedding begins and dropped when its vectors have
taken the place of the old ones. A run that is cut off leaves it behind, and the next one for the same embedder goes on
with it. A row fits as long as its record is the one that was embedded, which the record's checksum tells. All of it is
done by pages, so that any number of records takes the same memory.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.encoding.indexing import body_checksum, kind_and_text
from recall_loop.memory.store.tables.database import (
    AMONG_ROWS,
    KNOWN_ROWS,
    NOTE,
    RE_EMBEDDING_META_KEY,
    Connection,
    Database,
    ids_json,
    set_meta,
)
from recall_loop.memory.store.write.context_windows import reindex
from recall_loop.memory.store.write.stored_tokens import active_codec, note_tokens, write_piece_rows, write_token_rows
from recall_loop.memory.store.write.text_embedding import embed_texts
from recall_loop.state.errors import StoreUnavailableError

_CHUNK = 256
_LOG = logging.getLogger(__name__)

# A record without a checksum has not been written since checksums exist.
_FITS = """SELECT 1 FROM records r
WHERE r.rowid = reembedded.rowid AND coalesce(r.checksum, reembedded.checksum) = reembedded.checksum"""
_FORGET_UNFIT = f"DELETE FROM reembedded WHERE NOT EXISTS ({_FITS})"
_FORGET_PAGE = f"DELETE FROM reembedded WHERE rowid {AMONG_ROWS}"
_COUNTS = "SELECT (SELECT count(*) FROM reembedded WHERE target = ?), (SELECT count(*) FROM records)"
_PAGE = "SELECT rowid FROM records WHERE rowid > ? ORDER BY rowid LIMIT ?"
_READY = f"""SELECT rowid, own, tokens, pieces FROM reembedded
WHERE rowid {AMONG_ROWS} AND target = ? AND EXISTS ({_FITS})"""
_LEFT = f"""SELECT d.rowid, d.tenant, d.checksum, b.record FROM records d JOIN bodies b ON b.rowid = d.rowid
WHERE d.rowid {AMONG_ROWS} AND NOT EXISTS (
  SELECT 1 FROM reembedded WHERE reembedded.rowid = d.rowid AND target = ? AND EXISTS ({_FITS}))
ORDER BY d.rowid"""
_KEEP = """INSERT INTO reembedded (rowid, target, checksum, own, tokens, pieces) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (rowid) DO UPDATE SET target = excluded.target, checksum = excluded.checksum, own = excluded.own,
  tokens = excluded.tokens, pieces = excluded.pieces"""

# A row, its source (tenant, checksum, record), and its embeddings (own, tokens, pieces).
_Left = tuple[int, str, int | None, str]
_Made = tuple[int, bytes, bytes | None, bytes]


class StagedVectors:
    """The vectors of all records by the embedder that the store is to have, as far as they are made."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database, self._embedder = database, embedder
        self._codec = active_codec(database, embedder)
        tokens = None if self._codec is None else self._codec.fingerprint
        self._target = json.dumps([embedder.fingerprint, embedder.dimension, tokens], ensure_ascii=False)

    def fill(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Embed every record that isn't embedded yet as it stands, and commit each chunk.

        Others may write meanwhile; what they change is left for the next call. The old vectors stay in use.

        Args:
            progress: called with (records embedded, records in all): at once, with those of an earlier run, and after
                each chunk.

        Raises:
            EmbedderError: the embedder fails; what was embedded until then is kept.
            StoreUnavailableError: the tables can't be read or written, or another process embeds the store as well.
        """
        self._begin()
        ((done, total),) = self._database.fetch(_COUNTS, (self._target,))
        if done:
            _LOG.info("embedding is resumed", extra={"embedded": done, "records": total})
        if progress is not None:
            progress(done, total)
        for rowids in _pages(self._database.fetch):
            left: list[_Left] = self._database.fetch(_LEFT, (ids_json(rowids), self._target))
            if not left:
                continue
            self._keep([row for row in left if _is_sound(row)])
            done += len(left)
            if progress is not None:
                progress(done, max(done, total))

    def _begin(self) -> None:
        """Make the table, or forget its rows of texts that are gone; another embedder's are replaced one by one."""
        with self._database.exclusive(None), self._database.transaction() as connection:
            if _noted(connection) is None:
                for statement in self._database.dialect.staging:
                    connection.execute(statement)
            forget_unfit(connection)
            set_meta(connection, {RE_EMBEDDING_META_KEY: self._target})

    def _keep(self, rows: Sequence[_Left]) -> None:
        """Embed records and commit their vectors, less those of records that were deleted meanwhile."""
        if not rows:
            return
        checksums = {rowid: body_checksum(record) if known is None else known for rowid, _, known, record in rows}
        made = self._embed(rows)
        tenants = {tenant for _, tenant, _, _ in rows}
        with self._database.exclusive(tenants), self._database.transaction() as connection:
            if _noted(connection) != self._target:
                raise StoreUnavailableError(
                    "the store has been embedded elsewhere meanwhile, or another embedder has begun to"
                )
            living = {rowid for (rowid,) in connection.execute(KNOWN_ROWS, (ids_json(checksums),))}
            values = [(row[0], self._target, checksums[row[0]], *row[1:]) for row in made if row[0] in living]
            connection.executemany(_KEEP, values)

    def _embed(self, rows: Sequence[_Left]) -> list[_Made]:
        texts = [kind_and_text(record) for _, _, _, record in rows]
        made = embed_texts(self._embedder, self._codec, self._embedder.dimension, texts)
        own = [vector.tobytes() for vector in made.vectors.astype(np.float16)]
        return list(zip([row[0] for row in rows], own, made.tokens, made.pieces, strict=True))

    def take_over(self, connection: Connection) -> None:
        """Put the new vectors in the place of the old ones, page by page within the transaction, and drop the table.

        What `fill` has left is embedded here: records whose text is damaged, for one that is mended later keeps its
        checksum. Context vectors and windows are worked out again.
        """
        note_tokens(connection, self._codec)
        for rowids in _pages(connection.execute):
            self._replace(connection, rowids)
        for rowids in _pages(connection.execute):
            reindex(connection, rowids, ())
        connection.execute("DROP TABLE reembedded")
        connection.execute("DELETE FROM meta WHERE key = ?", (RE_EMBEDDING_META_KEY,))

    def _replace(self, connection: Connection, rowids: Sequence[int]) -> None:
        wanted = (ids_json(rowids), self._target)
        left = connection.execute(_LEFT, wanted).fetchall()
        rows: list[_Made] = [*connection.execute(_READY, wanted), *(self._embed(left) if left else [])]
        values = [(own, own, rowid) for rowid, own, _, _ in rows]
        connection.executemany("UPDATE vectors SET own = ?, context = ? WHERE rowid = ?", values)
        write_token_rows(connection, dict.fromkeys(rowids) | {rowid: tokens for rowid, _, tokens, _ in rows})
        write_piece_rows(connection, {rowid: pieces for rowid, _, _, pieces in rows})
        # SQLite keeps the pages that one statement frees in memory; dropping a table of gigabytes would need as many.
        connection.execute(_FORGET_PAGE, (wanted[0],))


def forget_staged(connection: Connection, rowids: Iterable[int]) -> None:
    """Forget what is kept aside of rows that this transaction deletes."""
    if _noted(connection) is not None:
        connection.executemany("DELETE FROM reembedded WHERE rowid = ?", [(rowid,) for rowid in rowids])


def forget_unfit(connection: Connection) -> None:
    """Forget what is kept aside of texts that are no longer there, within a transaction."""
    if _noted(connection) is not None:
        connection.execute(_FORGET_UNFIT)


def _noted(connection: Connection) -> str | None:
    """Return the target of the vectors that are kept aside; None = there is no such table."""
    found = connection.execute(NOTE, (RE_EMBEDDING_META_KEY,)).fetchone()
    return None if found is None else str(found[0])


def _is_sound(row: _Left) -> bool:
    return row[2] is None or body_checksum(row[3]) == row[2]


def _pages(read: Callable[[str, tuple[int, int]], Iterable[Any]]) -> Iterator[list[int]]:
    last = 0
    while rowids := [rowid for (rowid,) in read(_PAGE, (last, _CHUNK))]:
        yield rowids
        last = rowids[-1]
