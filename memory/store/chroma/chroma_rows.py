"""Rows as Chroma holds them: the text as a document, the rest of the record as JSON, and their state."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recall_loop.memory.store.encoding.indexing import body_checksum

# A row as it is in the tables; `ChromaRow.from_tables` reads what this selects.
SELECT_ROWS = """SELECT r.rowid, r.key, r.tenant, r.revision, b.record, v.context, r.commit_number, r.checksum
FROM records r JOIN bodies b ON b.rowid = r.rowid JOIN vectors v ON v.rowid = r.rowid"""
# In the JSON of a row: number, revision, checksum, and the place of the text. No record field has these names.
_ROW = "row"
COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class ChromaRow:
    """One row as Chroma holds it.

    Attributes:
        key: key of tenant and id.
        tenant: the record's tenant.
        rowid: number of the row in the sidecar.
        revision: how often the row was indexed, from 1.
        record: the record's JSON, as the sidecar has it; empty where it can't be read.
        vector: the context vector, where it was asked for.
        commit_number: number of the commit that wrote the row; 0 in stores made before there were any.
        checksum: checksum of `record` when it was written; None in stores made before there were any.
    """

    key: str
    tenant: str
    rowid: int
    revision: int
    record: str
    vector: Any = None
    commit_number: int = 0
    checksum: int | None = None

    @classmethod
    def from_tables(cls, row: Sequence[Any]) -> ChromaRow:
        """Return a row that `SELECT_ROWS` gave."""
        rowid, key, tenant, revision, body, context, number, checksum = row
        vector = np.frombuffer(context, dtype=np.float16).astype(np.float32)
        return cls(key, tenant, rowid, revision, body, vector, number, checksum)

    @property
    def is_sound(self) -> bool:
        """Whether the record is the one that was written, as far as that is known (GUARD-6)."""
        return bool(self.record) and self.checksum in (None, body_checksum(self.record))


def split_row(row: ChromaRow) -> tuple[str, dict[str, str | int]]:
    """Return document and metadata: the text is kept once, the rest of the record as JSON.

    Chroma indexes every key of every row, at a twentieth of the price of a whole row: there are only three.
    """
    record = json.loads(row.record)
    place = list(record).index("text")
    text = record.pop("text")
    state = [row.rowid, row.revision, row.checksum, place]
    return text, {
        "tenant": row.tenant,
        "record": json.dumps(record | {_ROW: state}, ensure_ascii=False),
        COMMIT: row.commit_number,
    }


def join_row(key: str, text: str | None, metadata: Mapping[str, Any], vector: Any) -> ChromaRow:
    """Return a row that Chroma holds; one whose JSON can't be read has an empty record, and is not sound."""
    tenant, commit = str(metadata.get("tenant", "")), int(metadata.get(COMMIT) or 0)
    try:
        record = json.loads(metadata["record"])
        # Rows of schema 1 have these two as separate keys, and keep them when they are written again.
        rowid, revision, *rest = record.pop(_ROW, None) or (metadata["rowid"], metadata["revision"])
        checksum, place = rest or (None, len(record))
        fields = list(record.items())
        fields.insert(place, ("text", text))
        body = json.dumps(dict(fields), ensure_ascii=False) if isinstance(text, str) else ""
        return ChromaRow(key, tenant, int(rowid), int(revision), body, vector, commit, checksum)
    except (AttributeError, KeyError, TypeError, ValueError):
        return ChromaRow(key, tenant, 0, 0, "", vector, commit)
