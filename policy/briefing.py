"""What a language model is shown of a run, within a token budget (LOOP-3).

Everything that was tried and everything that was found is in it, newest and strongest first; what the budget
doesn't hold is counted in a last line, never left out silently. All text is data: signs of tags are entities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from recall_loop.state.agent_state import PoolEntry, QueryOutcome
from recall_loop.state.request import ChatMessage
from recall_loop.text.budget import estimate_tokens
from recall_loop.text.markup import as_data
from recall_loop.text.snippets import best_snippet

SNIPPET_CHARACTERS = 200
MESSAGE_CHARACTERS = 500
_T = TypeVar("_T")
# Shares of what a prompt has left beside its fixed words and the question.
CONVERSATION_SHARE, TRIED_SHARE, UNCOVERED_SHARE = 0.2, 0.25, 0.05
# A last line such as "(and 120 more)".
_LAST_LINE = 12


def conversation(messages: Sequence[ChatMessage], question: str, budget: int) -> str:
    """Return the messages around the question, oldest first; the newest that fit into `budget` tokens."""
    others = [message for message in messages if message.content.strip() != question.strip()]
    kept, left = _fitting(others[::-1], _said, budget)
    return "\n".join([f"({left} earlier)"] * bool(left) + kept[::-1])


def _said(message: ChatMessage) -> str:
    text = message.content
    short = text if len(text) <= MESSAGE_CHARACTERS else text[: MESSAGE_CHARACTERS - 1] + "…"
    return as_data(f"{message.author or message.role.value}: {short}")


def tried(outcomes: Iterable[QueryOutcome], budget: int) -> str:
    """Return every tried query with its yield: those that gave new facts first, then the newest."""
    ordered = sorted(outcomes, key=lambda outcome: (outcome["new_facts"] == 0, -outcome["iteration"]))
    kept, left = _fitting(ordered, _yield, budget)
    return "\n".join(kept + [f"(and {left} more that gave nothing new)"] * bool(left))


def _yield(outcome: QueryOutcome) -> str:
    found = "failed" if outcome["error"] else f"{outcome['results']} found, {outcome['new_facts']} new"
    return f"- {as_data(outcome['query'])} ({found})"


def found(ranked: Sequence[PoolEntry], iteration: int, budget: int, terms: frozenset[str]) -> str:
    """Return the digest of all facts: what the last iteration added first, then the strongest.

    Each is cut to the window with the most of the question's `terms`.
    """
    newest = [entry for entry in ranked if entry["is_new"] and entry["first_iteration"] == iteration]
    known = {entry["key"] for entry in newest}
    ordered = [*newest, *(entry for entry in ranked if entry["key"] not in known)]
    kept, left = _fitting(list(enumerate(ordered, 1)), lambda item: fact_line(*item, terms), budget)
    return "\n".join(kept + [f"(and {left} weaker ones)"] * bool(left))


def facts(ranked: Sequence[PoolEntry], budget: int, terms: frozenset[str], most: int) -> str:
    """Return the facts for an answer, numbered from 1, each of at most `most` characters."""
    kept, _ = _fitting(list(enumerate(ranked, 1)), lambda item: fact_line(*item, terms, most), budget)
    return "\n".join(kept)


def fact_line(number: int, entry: PoolEntry, terms: frozenset[str], most: int = SNIPPET_CHARACTERS) -> str:
    """Return one fact as a numbered line of at most `most` characters of its text."""
    record = entry["record"]
    about = ", ".join(
        part for part in ((record.get("created_at") or "")[:10], record.get("author"), record.get("label")) if part
    )
    text = best_snippet(record["text"], terms, most)
    return as_data(f"[{number}] {about}: {text}" if about else f"[{number}] {text}")


def uncovered(phrases: Iterable[str], budget: int) -> str:
    """Return what is still open, one phrase a line."""
    kept, _ = _fitting(list(dict.fromkeys(phrases)), lambda phrase: f"- {as_data(phrase)}", budget)
    return "\n".join(kept)


def _fitting(items: Sequence[_T], line: Callable[[_T], str], budget: int) -> tuple[list[str], int]:
    """Return the lines of the first items that `budget` tokens hold, and how many items are left out.

    Lines are made only until the budget is spent.
    """
    kept: list[str] = []
    used = _LAST_LINE
    for item in items:
        made = line(item)
        used += estimate_tokens(made) + 1
        if used > budget:
            break
        kept.append(made)
    return kept, len(items) - len(kept)
