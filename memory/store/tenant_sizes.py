"""How much of a store is whose: records and bytes of each tenant (STORE-8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recall_loop.memory.store.tables.database import Database

_SIZES = """SELECT r.tenant, count(*), sum(length({bytes}) + length(v.own) + length(v.context)
    + coalesce(length(t.vectors), 0) + coalesce(length(p.vectors), 0))
FROM records r JOIN bodies b ON b.rowid = r.rowid JOIN vectors v ON v.rowid = r.rowid
LEFT JOIN tokens t ON t.rowid = r.rowid LEFT JOIN pieces p ON p.rowid = r.rowid
GROUP BY r.tenant ORDER BY r.tenant"""


@dataclass(frozen=True, slots=True)
class TenantSize:
    """A tenant that has records.

    Attributes:
        tenant: its name.
        records: how many records are stored; expired ones are among them until a sweep erases them.
        bytes: of these records as JSON, and of their vectors. Indexes, versions and Chroma's copy come on top.
    """

    tenant: str
    records: int
    bytes: int


def tenant_sizes(database: Database) -> list[TenantSize]:
    """Return every tenant that has records, by name; reads the text of all records.

    Raises:
        StoreUnavailableError: the store can't be read.
    """
    rows = database.fetch(_SIZES.format(bytes=database.dialect.record_bytes))
    return [TenantSize(tenant, int(records), int(size)) for tenant, records, size in rows]
