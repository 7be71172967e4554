"""Sending rows of the sidecar to Chroma: pending ones, or all; and the marker of both sides (STORE-4).

The sidecar is the commit point. What it holds as pending or as a tombstone may or may not have
reached Chroma; sending it again is harmless, so that repair is simply the rest of the write.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from zlib import crc32

from recall_loop.memory.store.chroma.chroma_index import UPSERT_BATCH, ChromaIndex
from recall_loop.memory.store.chroma.chroma_rows import SELECT_ROWS, ChromaRow
from recall_loop.memory.store.chroma.chroma_tombstones import reaches, write_tombstones
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.encoding.indexing import now_microseconds
from recall_loop.memory.store.tables.changes import last_commit, marker_of
from recall_loop.memory.store.tables.database import (
    APPLIED,
    METRIC,
    PENDING,
    RECALLS_SINCE_META_KEY,
    SCHEMA_VERSION,
    Database,
)
from recall_loop.memory.store.write.group_commit import mark_applied
from recall_loop.text.words.tokens import WORDS_VERSION

ProgressCallback = Callable[[int, int], None]
CHUNK = 256
# The version of the stems in a sidecar, which doesn't affect Chroma.
WORDS = "words"

_TEXTS = """SELECT r.rowid, r.key, r.id, r.checksum, {bytes} FROM records r JOIN bodies b ON b.rowid = r.rowid
WHERE r.rowid > ? ORDER BY r.rowid LIMIT ?"""
_TEXT_PAGE = 1_000
_PENDING_ROWS = f"{SELECT_ROWS} WHERE r.state = {PENDING} LIMIT ?"
_FOLLOWING_ROWS = f"{SELECT_ROWS} WHERE r.rowid > ? ORDER BY r.rowid LIMIT ?"
_GONE = "SELECT key, commit_number FROM tombstones WHERE state = 1 LIMIT ?"
_UNSENT = "SELECT 1 FROM records WHERE state = 1 UNION SELECT 1 FROM tombstones WHERE state = 1 LIMIT 1"
_BACK = "SELECT t.key FROM tombstones t JOIN records r ON r.key = t.key WHERE t.state = 1"


def new_marker(embedder: Embedder) -> dict[str, str]:
    """Return the generation marker of a store that `embedder` fills from now on."""
    return {
        "store": uuid.uuid4().hex,
        "generation": uuid.uuid4().hex,
        "schema": str(SCHEMA_VERSION),
        "embedder": embedder.name,
        "fingerprint": embedder.fingerprint,
        "dimension": str(embedder.dimension),
        "metric": METRIC,
        WORDS: str(WORDS_VERSION),
        RECALLS_SINCE_META_KEY: str(now_microseconds()),
    }


def has_current_words(database: Database) -> bool:
    """Return whether the stems of a sidecar's records are those of this version."""
    return database.meta().get(WORDS) == str(WORDS_VERSION)


def flush_pending(database: Database, chroma: ChromaIndex | None) -> None:
    """Send what is pending to Chroma, if there is one, then note it as applied; what fails stays pending."""
    while True:
        with database.reading() as connection:
            gone = connection.execute(_GONE, (UPSERT_BATCH,)).fetchall()
            rows = [ChromaRow.from_tables(row) for row in connection.execute(_PENDING_ROWS, (UPSERT_BATCH,))]
            back = {row[0] for row in connection.execute(_BACK)}
        if not gone and not rows:
            return
        if chroma is not None:
            if chroma.location is not None:
                write_tombstones(chroma, gone)
            chroma.delete([key for key, _ in gone if key not in back])
            chroma.upsert(rows)
        mark_applied(database, rows, deleted=gone)


def is_same_store(found: Mapping[str, str], marker: Mapping[str, str]) -> bool:
    """Return whether Chroma's marker is of the same store as the sidecar's, whatever their generations.

    Markers from before stores had ids name a generation only.
    """
    name = "store" if "store" in found else "generation"
    return name in found and found[name] == marker[name]


def count_records(database: Database) -> int:
    """Return the number of records of all tenants."""
    return int(database.fetch("SELECT count(*) FROM records")[0][0])


def count_expired(database: Database) -> int:
    """Return how many of these have expired, and await a sweep."""
    query = "SELECT count(*) FROM records WHERE expires_at <= ?"
    return int(database.fetch(query, (now_microseconds(),))[0][0])


def data_version(database: Database) -> int:
    """Return a number that every write of any tenant raises."""
    return int(database.fetch("SELECT coalesce(sum(version), 0) FROM tenants")[0][0])


def damaged_texts(database: Database) -> Iterator[list[tuple[int, str, str]]]:
    """Yield rowid, key and id of the records whose text isn't the one that was written, page by page (GUARD-6)."""
    query, last = _TEXTS.format(bytes=database.dialect.record_bytes), 0
    while found := database.fetch(query, (last, _TEXT_PAGE)):
        last = found[-1][0]
        yield [(rowid, key, name) for rowid, key, name, checksum, body in found if checksum not in (None, crc32(body))]


def is_equal(database: Database, chroma: ChromaIndex) -> bool:
    """Return whether Chroma holds as many records as the sidecar, and its last commit."""
    commit = last_commit(database)
    return chroma.count() == count_records(database) and (commit == 0 or reaches(chroma, commit))


def may_be_equal(database: Database, chroma: ChromaIndex) -> bool:
    """Return whether both sides hold the same, as far as nothing is still to be sent."""
    return bool(database.fetch(_UNSENT)) or is_equal(database, chroma)


def fill_collection(database: Database, chroma: ChromaIndex, progress: ProgressCallback | None = None) -> None:
    """Write every row of the sidecar to an empty collection and mark it complete."""
    total, done, last = count_records(database), 0, 0
    while True:
        with database.reading() as connection:
            rows = [ChromaRow.from_tables(row) for row in connection.execute(_FOLLOWING_ROWS, (last, UPSERT_BATCH))]
        if not rows:
            break
        chroma.upsert(rows)
        last, done = rows[-1].rowid, done + len(rows)
        if progress is not None:
            progress(done, total)
    if chroma.location is not None:
        write_tombstones(chroma, database.fetch("SELECT key, commit_number FROM tombstones"))
    chroma.mark_complete(marker_of(database))


def apply_all(database: Database) -> None:
    """Note that nothing is pending: a rebuilt Chroma has taken its place."""
    with database.transaction() as connection:
        connection.execute("UPDATE tombstones SET state = ? WHERE state = ?", (APPLIED, PENDING))
        connection.execute("UPDATE records SET state = ? WHERE state = ?", (APPLIED, PENDING))
