"""Content scoring: tool output and reasoning weigh less than what was said (SEARCH-5)."""

from __future__ import annotations

from recall_loop.state.records import Record
from recall_loop.state.types import Role

TOOL_FACTOR = 0.7
NON_CONTENT_SHARE = 0.5


def content_factor(record: Record) -> float:
    """Return the factor in [0.35,1] by which a record's scores are multiplied.

    A tool response gets 0.7; a message with reasoning or tool blocks 1 − 0.5 × their share of its
    characters. Both apply to a tool response that has such blocks.
    """
    factor = TOOL_FACTOR if record.role is Role.TOOL else 1.0
    total = sum(len(block.text) for block in record.blocks)
    if total:
        aside = sum(len(block.text) for block in record.blocks if block.type != "text")
        factor *= 1.0 - NON_CONTENT_SHARE * aside / total
    return factor
