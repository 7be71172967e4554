"""How large a record may be (GUARD-7). Checked on writing: larger records from earlier versions can still be read."""

from __future__ import annotations

import json
from collections.abc import Iterator

from recall_loop.state.records.records import Record
from recall_loop.state.types import MAX_TEXT_CHARS, ContentType

MAX_TAGS = MAX_SOURCES = 1_000
MAX_ATTRIBUTE_CHARS = 1_000_000
MAX_RUN_CHARS = 16_000_000
"""Characters of a trajectory's attributes as JSON, which hold its whole run; of other kinds `MAX_ATTRIBUTE_CHARS`."""
MAX_BLOCK_CHARS = 4 * MAX_TEXT_CHARS
MAX_NAME_CHARS = 4_000
"""Maximum characters of a short field: it is indexed with the text, or returned with it in every result."""
SHORT_FIELDS = ("label", "subject", "object", "fact_type", "author", "agent_name")
_JSON = json.JSONEncoder(ensure_ascii=False)


def size_complaints(record: Record) -> Iterator[tuple[str, str, str]]:
    """Yield each field of a record that is too large, with its size and the limit."""
    for name, count, most in (
        ("tags", len(record.tags), MAX_TAGS),
        ("source_ids", len(record.source_ids), MAX_SOURCES),
    ):
        if count > most:
            yield name, f"{count:,} items", f"a list of 0 to {most:,} items"
    for name in SHORT_FIELDS:
        written = len(getattr(record, name) or "")
        if written > MAX_NAME_CHARS:
            yield name, f"{written:,} characters", f"a text of at most {MAX_NAME_CHARS:,} characters"
    blocks = sum(len(block.text) for block in record.blocks)
    if blocks > MAX_BLOCK_CHARS:
        yield "blocks", f"{blocks:,} characters", f"texts of at most {MAX_BLOCK_CHARS:,} characters together"
    most = MAX_RUN_CHARS if record.kind is ContentType.TRAJECTORY else MAX_ATTRIBUTE_CHARS
    written = len(_JSON.encode(record.attributes)) if record.attributes else 0
    if written > most:
        yield "attributes", f"{written:,} characters", f"an object of at most {most:,} characters as JSON"
