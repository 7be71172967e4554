"""The context block: ranked facts as cited text within a token budget (LOOP-10)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from recall_loop.state.agent_state import PoolEntry
from recall_loop.state.types import ContentType
from recall_loop.text.words.snippets import best_snippet
from recall_loop.text.words.token_budget import estimate_tokens, fit_to_budget

# Retrieved text is data: it must not close the block that contains it.
_TAG = re.compile(r"<(?=\s*/?\s*memories)", re.IGNORECASE)
# A message may say other things besides the superseded one.
_ENDS = {True: "no longer true from ", False: "partly out of date since "}
# Tried in turn: scripts other than Latin take up to a token for each character, and more.
_CHARACTERS_PER_TOKEN = (3.0, 1.5, 0.9, 0.4)


def render_memory_lines(entries: Sequence[PoolEntry], budget: int, terms: frozenset[str]) -> list[str]:
    """Return one cited line per fact, best first, as many as fit into `budget` tokens.

    If the first fact alone is too long, it is cut to the window with the most question `terms`.
    """
    lines = [_line(entry, entry["record"]["text"]) for entry in entries]
    kept = fit_to_budget(lines, budget)
    if kept or not entries:
        return kept
    tokens = budget - estimate_tokens(_line(entries[0], ""))
    for characters in _CHARACTERS_PER_TOKEN:
        cut = best_snippet(entries[0]["record"]["text"], terms, max(int(characters * tokens), 0))
        kept = fit_to_budget([_line(entries[0], cut)], budget) if cut else []
        if kept:
            break
    return kept


def _line(entry: PoolEntry, text: str) -> str:
    record = entry["record"]
    day = (record.get("created_at") or "")[:10]
    end = _ENDS[record["kind"] == ContentType.FACT] + record["valid_until"][:10] if record.get("valid_until") else None
    about = ", ".join(filter(None, [day, end, record.get("author"), record.get("label")]))
    line = f"[{record['id']}] {about}: {text}" if about else f"[{record['id']}] {text}"
    return _TAG.sub("&lt;", " ".join(line.split()))
