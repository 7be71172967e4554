"""`recall-loop add`: a text, or the messages and records of a JSON document, into a store (API-1)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.shared_options import (
    add_json_option,
    add_language_option,
    add_model_options,
    add_owner_options,
    add_store_option,
    add_tenant_option,
)

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Store a text as a message from the user, or the contents of a JSON document: a message, a record, or a list of messages
and records. Missing fields (id, kind, time, position) are derived. If one item can't be stored, none is. For files with
many records, use `recall-loop ingest`.
"""
_EXAMPLE = """\
examples:
  recall-loop add "I moved to Bergen in May." --user ada --store ./my-memory
  recall-loop add --file talk.json --conversation house --infer --model gpt-5-mini --store ./my-memory
  echo "The ferry leaves at nine." | recall-loop add - --store ./my-memory
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "add", help="store a text, messages or records", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("text", nargs="?", metavar="TEXT", help="text to store; - = standard input")
    what.add_argument("--file", type=Path, metavar="FILE", help="a JSON document of messages and records, UTF-8")
    add_store_option(parser, writes=True)
    add_tenant_option(parser)
    whose = parser.add_argument_group("whose it is")
    add_owner_options(whose, "conversation it belongs to")
    whose.add_argument("--session", metavar="ID", help="part of the conversation")
    add_language_option(parser, "items that state none", "each text")
    parser.add_argument(
        "--infer", action="store_true", help="extract facts from the messages with a chat model (default: off)"
    )
    add_model_options(parser, answers=False)
    add_json_option(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Add it; 1 where a chat model could not read it for facts, else 0."""
    from recall_loop.cli.core.common import open_store
    from recall_loop.cli.core.screen import Screen, print_json
    from recall_loop.graph.memories.memory import Memory

    content = _content(args)
    owner = {name: getattr(args, name) for name in ("agent_id", "user_id", "conversation_id", "session", "language")}
    with open_store(settings, create=True) as store:
        added = Memory(store=store, settings=settings).add(content, infer=args.infer, **owner)
    failure = added.facts.failure if added.facts else None
    if args.json:
        facts = {"created": added.facts.created, "failure": failure} if added.facts else None
        skipped = [{"index": one.index, "reason": one.reason} for one in added.skipped]
        print_json({"ids": list(added.ids), "skipped": skipped, "facts": facts})
        return 1 if failure else 0
    screen = Screen()
    for outcome in added.outcomes:
        screen.line(f"{outcome.status} {outcome.id}" + (f" ({outcome.warning})" if outcome.warning else ""))
    for record_id in added.facts.created if added.facts else []:
        screen.line(f"fact {record_id}")
    for one in added.skipped:
        screen.line(f"skipped {one.index}: {one.reason}")
    if failure:
        screen.line(f"no facts: {failure['reason']}: {failure['detail']}")
    return 1 if failure else 0


def _content(args: argparse.Namespace) -> Any:
    from recall_loop.cli.core.common import argument_text
    from recall_loop.state.errors import InvalidInputError

    if args.file is None:
        if not (text := argument_text(args.text)).strip():
            raise InvalidInputError("TEXT", text, "text that isn't blank")
        return text
    try:
        return json.loads(args.file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        allowed = f"a JSON document in UTF-8 ({error}); other files are for `recall-loop ingest`"
        raise InvalidInputError("--file", str(args.file), allowed) from error
