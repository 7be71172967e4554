"""What begins with a slash in a conversation: /why, /memory, /forget, /new, /help, /quit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recall_loop.cli.talk.conversation_turns import Conversation
from recall_loop.state.errors import InvalidInputError

if TYPE_CHECKING:
    from recall_loop.cli.talk.turn_json import JsonLines
    from recall_loop.cli.talk.turn_rendering import ConversationScreen

HELP = """\
/why         details of the last recall: iterations, facts, score components and the context
/memory [N]  the N newest records, 1 to 1000 (default: 10)
/forget ID   erase a record
/new         start a new conversation; memory is kept
/help        this list
/quit        quit; so does the end of the input
For a turn that begins with a slash, begin the line with //."""
_COMMANDS = "/why, /memory [N], /forget ID, /new, /help, /quit; // for a turn that begins with a slash"
_MAX_RECORDS = 1000


def run_command(line: str, conversation: Conversation, out: ConversationScreen | JsonLines) -> bool:
    """Run a line that begins with a slash; return whether the conversation continues. Raises where it is no command."""
    name, _, rest = line.partition(" ")
    rest = rest.strip()
    if name in ("/memory", "/forget"):
        (_show_memory if name == "/memory" else _forget)(rest, conversation, out)
        return True
    if rest or name not in ("/why", "/new", "/help", "/quit"):
        raise InvalidInputError("command", line, _COMMANDS)
    if name == "/why":
        _show_why(conversation, out)
    elif name == "/new":
        fresh = conversation.begin_conversation()
        out.message(f"Conversation {fresh}.", command="new", conversation_id=fresh)
    elif name == "/help":
        for row in HELP.splitlines():
            out.message(row, command="help")
    return name != "/quit"


def _show_why(conversation: Conversation, out: ConversationScreen | JsonLines) -> None:
    if conversation.last is None:
        raise InvalidInputError("command", "/why", "a turn before it")
    out.why(conversation.last)


def _show_memory(number: str, conversation: Conversation, out: ConversationScreen | JsonLines) -> None:
    limit = int(number) if number.isdecimal() else 0 if number else 10
    if not 1 <= limit <= _MAX_RECORDS:
        raise InvalidInputError("/memory", number, f"a number from 1 to {_MAX_RECORDS}, or none")
    out.memory(conversation.newest(limit), conversation.now())


def _forget(record_id: str, conversation: Conversation, out: ConversationScreen | JsonLines) -> None:
    if not record_id:
        raise InvalidInputError("/forget", record_id, "the id of a record")
    if not conversation.forget(record_id):
        raise InvalidInputError("/forget", record_id, "the id of a record that recall reaches, as /memory shows it")
    out.message(f"Erased {record_id}.", command="forget", id=record_id)
