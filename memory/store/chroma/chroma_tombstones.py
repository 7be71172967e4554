"""Deletions as Chroma keeps them, so that an older sidecar brings nothing back that was erased (GUARD-1).

They stand in a collection beside the records'. A row of it names some deleted keys, each with the number of the commit
that deleted it. A key is a hash of tenant and id; nothing else of a record is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from recall_loop.memory.store.chroma.chroma_index import ChromaIndex, guard
from recall_loop.memory.store.chroma.chroma_rows import COMMIT
from recall_loop.memory.store.tables.database import chunks

# Chroma Cloud allows 4,096 bytes in a value.
_KEYS = 80
_PAGE = 1_000
# These rows are never searched, but every row needs a vector.
_VECTOR = (1.0,)


def write_tombstones(chroma: ChromaIndex, deleted: Sequence[tuple[str, int]]) -> None:
    """Note deleted keys, each with its commit; noting one again does no harm."""
    if not deleted:
        return
    parts = list(chunks(sorted(deleted, key=lambda pair: pair[1]), _KEYS))
    with guard("note deletions"):
        collection = chroma.companion(create=True)
        for some in chunks(parts, _PAGE):
            collection.upsert(
                ids=[f"{part[-1][1]}-{part[0][0]}" for part in some],
                embeddings=[list(_VECTOR) for _ in some],
                metadatas=[
                    {COMMIT: part[-1][1], "keys": " ".join(f"{key}:{number}" for key, number in part)} for part in some
                ],
            )


def read_tombstones(chroma: ChromaIndex) -> dict[str, int]:
    """Return the deleted keys with the number of the commit that deleted each last."""
    found: dict[str, int] = {}
    with guard("read deletions"):
        collection = chroma.companion(create=False)
        for start in range(0, 0 if collection is None else collection.count(), _PAGE):
            page = collection.get(limit=_PAGE, offset=start, include=["metadatas"])
            for metadata in page["metadatas"]:
                for pair in str(metadata["keys"]).split():
                    key, _, number = pair.partition(":")
                    found[key] = max(found.get(key, 0), int(number))
    return found


def reaches(chroma: ChromaIndex, commit_number: int) -> bool:
    """Return whether Chroma holds a row or a deletion of this commit, or of a later one."""
    with guard("be read"):
        for collection in (chroma.collection, chroma.companion(create=False)):
            wanted = {COMMIT: {"$gte": commit_number}}
            if collection is not None and collection.get(where=wanted, limit=1, include=[])["ids"]:
                return True
    return False
