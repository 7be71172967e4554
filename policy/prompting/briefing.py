"""Evidence as text: the digest for a chat model, and the context block of the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from recall_loop.state.display import truncate
from recall_loop.state.request import ChatMessage
from recall_loop.state.run.state_entries import PoolEntry, QueryOutcome
from recall_loop.state.types import ContentType
from recall_loop.text.words.snippets import (
    CHARACTERS_PER_TOKEN,
    best_snippet,
    escape_text,
    estimate_tokens,
    fit_to_budget,
)

FACT_CHARACTERS = 200
MESSAGE_CHARACTERS = 500
NAME_CHARACTERS, NAME_TOKENS = 60, 20
_T = TypeVar("_T")
# Shares of the budget that a prompt has left after its fixed words and the question.
CONVERSATION_SHARE, TRIED_SHARE, UNCOVERED_SHARE = 0.2, 0.25, 0.05
# A last line such as "(and 120 more)".
_REMAINDER_TOKENS = 12
_MAX_MISSES = 5


def render_conversation(messages: Sequence[ChatMessage], question: str, budget: int) -> str:
    """Return the messages around the question, oldest first: the newest that fit into `budget` tokens."""
    others = [message for message in messages if message.content.strip() != question.strip()]
    kept, omitted = _take_fitting(others[::-1], _render_message, budget)
    return "\n".join([f"({omitted} more)"] * bool(omitted) + [line for _, line in kept[::-1]])


def _render_message(message: ChatMessage) -> str:
    who = fit_text(truncate(message.author or message.role.value, NAME_CHARACTERS), NAME_TOKENS)
    return f"{who}: {escape_text(truncate(message.content, MESSAGE_CHARACTERS))}"


def fit_text(text: str, budget: int) -> str:
    """Return text escaped as data and cut to `budget` tokens; an escaped tag character may take several."""
    shown = escape_text(text)
    while text and estimate_tokens(shown) > budget:
        text = text[: max(len(text) * budget // (estimate_tokens(shown) + 1), 0)]
        shown = escape_text(text + "…")
    return shown if text else ""


def render_tried(outcomes: Iterable[QueryOutcome], budget: int) -> str:
    """Return every tried query with its yield: those that gave new facts first, then the newest."""
    ordered = sorted(outcomes, key=lambda outcome: (outcome["new_facts"] == 0, -outcome["iteration"]))
    return _joined(*_take_fitting(ordered, _render_outcome, budget))


def _render_outcome(outcome: QueryOutcome) -> str:
    result = "failed" if outcome["error"] else f"{outcome['results']} found, {outcome['new_facts']} new"
    return f"- {escape_text(outcome['query'])} ({result})"


def render_found(ranked: Sequence[PoolEntry], iteration: int, budget: int, terms: frozenset[str]) -> str:
    """Return the digest of all facts: those that the last iteration added first, then the strongest.

    Each is cut to the window with most of the question's `terms`.
    """
    newest = [entry for entry in ranked if entry["is_new"] and entry["first_iteration"] == iteration]
    known = {entry["key"] for entry in newest}
    ordered = [*newest, *(entry for entry in ranked if entry["key"] not in known)]
    return _joined(*_take_fitting(list(enumerate(ordered, 1)), lambda item: render_fact(*item, terms), budget))


def render_facts(ranked: Sequence[PoolEntry], budget: int, terms: frozenset[str], most: int) -> dict[int, str]:
    """Return the facts for an answer by number from 1, each with at most `most` characters of its text."""
    kept, _ = _take_fitting(list(enumerate(ranked, 1)), lambda item: render_fact(*item, terms, most), budget)
    return {number: line for (number, _), line in kept}


def render_fact(number: int, entry: PoolEntry, terms: frozenset[str], most: int = FACT_CHARACTERS) -> str:
    """Return one fact as a numbered line with at most `most` characters of its text."""
    record = entry["record"]
    names = (fit_text(truncate(record.get(name) or "", NAME_CHARACTERS), NAME_TOKENS) for name in ("author", "label"))
    about = ", ".join(filter(None, [(record.get("created_at") or "")[:10], *names]))
    text = escape_text(best_snippet(record["text"], terms, most))
    return f"[{number}] {about}: {text}" if about else f"[{number}] {text}"


def render_uncovered(phrases: Iterable[str], budget: int) -> str:
    """Return the uncovered phrases, one a line."""
    kept, _ = _take_fitting(list(dict.fromkeys(phrases)), lambda phrase: f"- {escape_text(phrase)}", budget)
    return "\n".join(line for _, line in kept)


def _take_fitting(items: Sequence[_T], line: Callable[[_T], str], budget: int) -> tuple[list[tuple[_T, str]], int]:
    """Return the first items that fit into `budget` tokens with their lines, and how many are left out.

    A line that doesn't fit is skipped. Lines are made only until the budget is spent.
    """
    kept: list[tuple[_T, str]] = []
    used = _REMAINDER_TOKENS
    misses = 0
    for item in items:
        rendered = line(item)
        tokens = estimate_tokens(rendered) + 1
        if used + tokens <= budget:
            used += tokens
            kept.append((item, rendered))
        elif (misses := misses + 1) > _MAX_MISSES:
            break
    return kept, len(items) - len(kept)


def _joined(kept: Sequence[tuple[object, str]], omitted: int) -> str:
    return "\n".join([line for _, line in kept] + [f"(and {omitted} more)"] * bool(omitted))


# Retrieved text is data: it must not close the block that contains it.
_TAG = re.compile(r"<(?=\s*/?\s*memories)", re.IGNORECASE)
# Nor may it pass for a citation: an id has at most so many characters.
_BRACKETED = re.compile(r"\[(?=[^\[\]]{1,512}\])")
# A message may say other things besides the superseded one.
_ENDS = {True: "no longer true from ", False: "partly out of date since "}
# Tried in turn: scripts other than Latin take up to a token for each character, or more.
_SHORTENED_CHARACTERS_PER_TOKEN = (3.0, 1.5, 0.9, 0.4)
# Tokens that a line may always take, if they are left, and the fewest of a text that is cut: some words on each side.
_LEAST_SHARE, _LEAST_SHOWN = 60, 15


def render_memory_lines(entries: Sequence[PoolEntry], budget: int, terms: frozenset[str]) -> list[str]:
    """Return one cited line per fact, best first, as many as fit into `budget` tokens.

    Where not all fit, one that would take more than half of what is left is cut to the window with the most question
    `terms`: a pasted letter mustn't keep out what is behind it.
    """
    if sum(len(entry["record"]["text"]) for entry in entries) <= CHARACTERS_PER_TOKEN * budget:  # else it can't fit
        whole = [_line(entry, entry["record"]["text"]) for entry in entries]
        if len(fit_to_budget(whole, budget)) == len(whole):
            return whole
    lines: list[str] = []
    left = budget
    for entry in entries:
        share = left if entry is entries[-1] else max(left // 2, min(_LEAST_SHARE, left))
        line = _fitting_line(entry, share, terms)
        if not line:
            break
        lines.append(line)
        left -= estimate_tokens(line) + 1
    return lines


def _fitting_line(entry: PoolEntry, budget: int, terms: frozenset[str]) -> str:
    """Return the line of a fact, cut if it is too long; "" where too little of it would be left to say anything."""
    text = entry["record"]["text"]
    if len(text) <= CHARACTERS_PER_TOKEN * budget and estimate_tokens(line := _line(entry, text)) <= budget:
        return line
    tokens = budget - estimate_tokens(_line(entry, ""))
    for characters in _SHORTENED_CHARACTERS_PER_TOKEN if tokens >= _LEAST_SHOWN else ():
        line = _line(entry, best_snippet(text, terms, int(characters * tokens)))
        if estimate_tokens(line) <= budget:
            return line
    return ""


def _line(entry: PoolEntry, text: str) -> str:
    record = entry["record"]
    day = (record.get("created_at") or "")[:10]
    end = _ENDS[record["kind"] == ContentType.FACT] + record["valid_until"][:10] if record.get("valid_until") else None
    hint = record.get("superseded_by_hint")
    newer = f"older, see [{hint}]" if hint else None
    author, label, shown = (_uncited(part or "") for part in (record.get("author"), record.get("label"), text))
    about = ", ".join(filter(None, [day, end, newer, author, label]))
    line = f"[{record['id']}] {about}: {shown}" if about else f"[{record['id']}] {shown}"
    return _TAG.sub("&lt;", " ".join(line.split()))


def _uncited(text: str) -> str:
    """Return text on one line without citations: only the block's own brackets cite a memory (GUARD-7)."""
    return _BRACKETED.sub("&#91;", " ".join(text.split()))
