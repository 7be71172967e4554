"""A conversation as JSON: one object on one line for each turn and each command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from recall_loop.cli.core.screen import print_json
from recall_loop.cli.talk.conversation_turns import Turn
from recall_loop.cli.talk.fact_notes import NotedFact, best_query, strongest_components
from recall_loop.state.records.records import Record

_FACT_FIELDS = ("id", "content_type", "text", "similarity", "score", "author", "role", "created_at", "count")


class JsonLines:
    """Writes turns and the results of commands as lines of JSON."""

    def opening(self, conversation_id: str, records: int) -> None:
        """Write nothing: each turn names its conversation."""

    def turn(self, turn: Turn) -> None:
        """Write one turn."""
        result = turn.result
        print_json(
            {
                "turn": turn.number,
                "conversation_id": turn.conversation_id,
                "at": turn.at.isoformat(),
                "text": turn.text,
                "speech_acts": list(turn.acts),
                "reply": turn.reply,
                "confidence": result.confidence.model_dump(mode="json"),
                "stop": result.stop.model_dump(mode="json"),
                "facts": [_fact(noted) for noted in turn.facts],
                "context": result.context,
                "warnings": list(result.warnings),
                "written": [asdict(one) for one in turn.written],
                "extracted": asdict(turn.extracted) if turn.extracted is not None else None,
            }
        )

    def why(self, turn: Turn) -> None:
        """Write the whole result of a turn, and its progress events."""
        result = turn.result.model_dump(mode="json")
        print_json({"command": "why", "turn": turn.number, "events": list(turn.events), "result": result})

    def memory(self, records: Sequence[Record], now: datetime) -> None:
        """Write records, newest first."""
        del now  # they have their times
        shown = [record.model_dump(mode="json", exclude_defaults=True) for record in records]
        print_json({"command": "memory", "records": shown})

    def message(self, text: str, **fields: object) -> None:
        """Write what became of a command."""
        print_json({"message": text, **fields})

    def problem(self, text: str) -> None:
        """Write an error in the input."""
        print_json({"error": text})


def _fact(noted: NotedFact) -> dict[str, Any]:
    fact = noted.fact.model_dump(mode="json")
    query = best_query(noted.fact)
    return {
        **{name: fact[name] for name in _FACT_FIELDS},
        "in_context": noted.in_context,
        "left_out": noted.left_out,
        "notes": list(noted.notes),
        "found_by": query and {name: query[name] for name in ("query", "source", "iteration")},
        "components": strongest_components(noted.fact),
    }
