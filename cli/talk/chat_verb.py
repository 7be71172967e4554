"""`recall-loop chat`: a conversation with a memory that shows what each turn recalls and writes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.shared_options import (
    add_model_options,
    add_store_option,
    add_tenant_option,
    bounded_int,
    given_fields,
)

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.cli.talk.conversation_turns import Conversation, ConversationOptions
    from recall_loop.cli.talk.turn_json import JsonLines
    from recall_loop.cli.talk.turn_rendering import ConversationScreen
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Talk to a memory. Each line is a turn. It shows the recalled facts with confidence and scores, and the facts left out
of the context with the reason; then the reply and the messages written. With a chat model, the reply is its answer;
without one, it is the best fact verbatim, or that there is none. A statement that asks nothing is noted. Lines that
begin with a slash are commands; /help lists them. Lines may also be piped in.
"""
_EXAMPLE = """\
examples:
  recall-loop chat --store ./my-memory --user ada
  recall-loop chat --store ./my-memory --user ada --model gpt-5-mini --infer
  printf 'I moved to Bergen.\\nWhere do I live?\\n' | recall-loop chat --store ./my-memory --user ada --json
"""
_PROMPT = "you: "


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "chat", help="talk to a memory and see what it recalls", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add_store_option(parser, writes=True)
    add_tenant_option(parser)
    add = parser.add_argument
    add("--user", dest="user_id", metavar="U", help="user whose memory is written and recalled (default: all)")
    add("--agent", dest="agent_id", metavar="A", help="agent whose memory is written and recalled (default: all)")
    add("--conversation", dest="conversation_id", metavar="ID", help="continue this conversation (default: a new one)")
    add("--reference-time", metavar="T", help="time at which the conversation starts (default: now)")
    add_model_options(parser)
    add("--infer", action="store_true", help="let the chat model extract facts from each turn (default: off)")
    add("--top", type=bounded_int(1, 1000), default=5, metavar="N", help="facts shown, 1 to 1000 (default: 5)")
    add("--json", action="store_true", help="print one JSON object for each turn and command (default: text)")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Talk until the input ends, and return 0; where lines are piped in, one that isn't allowed raises."""
    from recall_loop.cli.core.common import open_store
    from recall_loop.cli.talk.conversation_turns import Conversation
    from recall_loop.cli.talk.turn_json import JsonLines
    from recall_loop.cli.talk.turn_rendering import ConversationScreen
    from recall_loop.graph.memories.memory import Memory

    interactive = sys.stdin.isatty()
    out = JsonLines() if args.json else ConversationScreen(args.top, repeats_input=not interactive)
    options = _options(args, settings)
    with open_store(settings, create=True) as store:
        conversation = Conversation(Memory(store=store, settings=settings), options)
        out.opening(conversation.conversation_id, conversation.count())
        for line in _lines(_PROMPT if interactive and not args.json else ""):
            if not _take(line, conversation, out, interactive=interactive):
                break
    return 0


def _take(line: str, conversation: Conversation, out: ConversationScreen | JsonLines, *, interactive: bool) -> bool:
    """Take one line; return whether the conversation goes on. A person gets another try after a mistake."""
    from recall_loop.cli.talk.chat_commands import run_command
    from recall_loop.state.errors import InvalidInputError

    try:
        if line.startswith("/") and not line.startswith("//"):
            return run_command(line, conversation, out)
        out.turn(conversation.say(line[1:] if line.startswith("//") else line))
    except InvalidInputError as error:
        if not interactive:
            raise
        out.problem(str(error))
    return True


def _options(args: argparse.Namespace, settings: Settings) -> ConversationOptions:
    """Return what the options say, before a store is opened."""
    from recall_loop.cli.talk.conversation_turns import ConversationOptions
    from recall_loop.state.errors import InvalidInputError, validate_model

    if args.infer and settings.llm_model is None:
        raise InvalidInputError("--infer", True, "only with --model")
    if args.write_answer and settings.llm_model is None:
        raise InvalidInputError("--answer", True, "only with --model")
    fields = given_fields(args, ConversationOptions.model_fields)
    return validate_model(ConversationOptions, {**fields, "tenant": settings.tenant})


def _lines(prompt: str) -> Iterator[str]:
    """Yield the lines that say something, until the input ends or is interrupted while it is waited for."""
    from recall_loop.cli.core.common import strict_input, strict_lines

    piped = strict_lines()
    if prompt:
        with suppress(ImportError):  # it gives the prompt its history and its keys
            import readline  # noqa: F401
    while True:
        try:
            if prompt:
                with strict_input():
                    line = input(prompt)
            else:
                line = next(piped)
        except (EOFError, KeyboardInterrupt, StopIteration):
            sys.stdout.write("\n" if prompt else "")
            return
        if line.strip():
            yield line.strip()
