"""`recall-loop demo`: the loop on a small bundled memory, shown step by step."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.cli.core.run_rendering import RunScreen
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.settings.settings import Settings

TENANT = "demo"
_DEFAULT_QUESTIONS = 4
_SHOWN_FACTS = 5
_WEEK_LATER, _USER = "2025-04-11T09:00:00Z", "Mara"
_SHOWN_LATER = 3
_DESCRIPTION = """\
Load a small fictional memory (an assistant that helps to turn a lighthouse into a guesthouse) into a
temporary store and ask it questions. For each question it shows the searches and new facts of every iteration,
why the search stopped, the best facts with their sources, and the confidence in the result. Then, as if a week
had passed, it runs a conversation, as in `recall-loop chat`, with something never said, the same question
again, and a correction.
"""
_EXAMPLE = """\
examples:
  recall-loop demo
  recall-loop demo --question "What did Teo say about the tower?"
  recall-loop demo --all --keep ./demo-store
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "demo", help="see the loop at work on a bundled example", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help=f"all questions (default: the first {_DEFAULT_QUESTIONS})")
    which.add_argument("--question", metavar="Q", help="your own question instead")
    parser.add_argument("--keep", type=Path, metavar="PATH", help="keep the store, in this new folder (default: off)")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the demo, and return 0."""
    from recall_loop.cli.core.run_rendering import RunScreen

    screen = RunScreen()
    with _folder(args.keep) as folder, _filled_store(folder, settings, screen) as store:
        for question in _questions(args):
            _ask(question, store, settings, screen)
        if args.question is None:
            _talk_a_week_later(store, settings, screen)
    if args.keep:
        screen.line()
        screen.line(f"Kept. Continue with: recall-loop retrieve QUESTION --store {args.keep} --tenant {TENANT}")
    return 0


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    from recall_loop.state.errors import InvalidInputError

    if keep is not None:
        if keep.exists():
            raise InvalidInputError("--keep", str(keep), "a folder that doesn't exist yet")
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="recall-loop-demo-") as folder:
        yield Path(folder) / "store"


@contextmanager
def _filled_store(folder: Path, settings: Settings, screen: RunScreen) -> Iterator[MemoryStore]:
    from recall_loop.memory.intake.files.ingest import IngestOptions, ingest_file
    from recall_loop.memory.store.embed.embedder_factory import make_embedder
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.display import format_count

    with (
        MemoryStore.open(folder, embedder=make_embedder(settings)) as store,
        as_file(files("recall_loop.cli") / "demo_records.jsonl") as records,
    ):
        summary = ingest_file(records, store, IngestOptions(tenant=TENANT, resume=False))
        screen.line(f"Loaded {format_count(summary.stored, 'record')} in {summary.seconds:.1f} s.")
        yield store


def _questions(args: argparse.Namespace) -> list[dict[str, Any]]:
    if args.question is not None:
        return [{"about": "your question", "messages": [{"role": "user", "content": args.question}]}]
    questions = _bundled("demo_questions.jsonl")
    return questions if args.all else questions[:_DEFAULT_QUESTIONS]


def _bundled(name: str) -> list[dict[str, Any]]:
    lines = (files("recall_loop.cli") / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def _ask(question: dict[str, Any], store: MemoryStore, settings: Settings, screen: RunScreen) -> None:
    from recall_loop.graph.run import follow, stream_retrieve
    from recall_loop.state.errors import validate_model
    from recall_loop.state.request import RetrieveRequest

    fields = {name: value for name, value in question.items() if name not in ("about", "note")}
    request = validate_model(RetrieveRequest, {"tenant": TENANT} | fields)
    screen.rule(question["about"])
    for message in request.messages:
        screen.line(f"{message.author or message.role}: {message.content}", "bold")
    if question.get("note"):
        screen.line(question["note"], "dim")
    screen.result(follow(stream_retrieve(request, store=store, settings=settings), screen.event), top=_SHOWN_FACTS)


def _talk_a_week_later(store: MemoryStore, settings: Settings, screen: RunScreen) -> None:
    """Hold the bundled conversation; what is said becomes part of the memory."""
    from recall_loop.cli.talk.conversation_turns import Conversation, ConversationOptions
    from recall_loop.cli.talk.turn_rendering import ConversationScreen
    from recall_loop.graph.memories.memory import Memory
    from recall_loop.state.errors import validate_model

    screen.line()
    screen.line("A week later", "bold")
    fields = {"tenant": TENANT, "author": _USER, "reference_time": _WEEK_LATER}
    conversation = Conversation(Memory(store=store, settings=settings), validate_model(ConversationOptions, fields))
    later = ConversationScreen(_SHOWN_LATER, repeats_input=True)
    for scene in _bundled("demo_week.jsonl"):
        screen.rule(scene["about"])
        screen.line(scene["note"], "dim")
        later.turn(conversation.say(scene["text"]))
