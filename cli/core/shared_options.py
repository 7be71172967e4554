"""Options and actions that several verbs declare. It imports nothing heavy, so that help is immediate.

An option's `dest` is the name of the field that it sets, in `Settings`, `Scope` and the like, and one that isn't given
is None: `given_fields` takes the fields of a model from the arguments.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.files.batch_size import BATCH_SIZE, MAX_BATCH_SIZE

Group = argparse._ActionsContainer  # a parser, or a group of one


def add_store_option(group: Group, *url_aliases: str, writes: bool = False) -> None:
    """Add `--store` and `--url`, the latter under further names too, and `--wait` to what `writes`."""
    add = group.add_argument
    add(
        "--store",
        dest="store_path",
        metavar="PATH",
        help="folder of the store, or postgresql://user@host/database (default: $RECALL_LOOP_STORE_PATH)",
    )
    add(
        *url_aliases,
        "--url",
        dest="chroma_url",
        metavar="URL",
        help="Chroma server that holds the vectors; a store remembers its own (default: $RECALL_LOOP_CHROMA_URL)",
    )
    add(
        "--embedder",
        metavar="NAME",
        help="embedder of the store: minilm, minilm-plain, multilingual, onnx:FOLDER, openai or provider:model "
        "(default: $RECALL_LOOP_EMBEDDER, else minilm)",
    )
    if writes:
        add(
            "--wait",
            dest="writer_wait_seconds",
            metavar="SECONDS",
            help="how long to wait while another process writes to the folder "
            "(default: $RECALL_LOOP_WRITER_WAIT_SECONDS, else 10)",
        )


def add_owner_options(group: Group, conversation: str) -> None:
    """Add `--agent`, `--user` and `--conversation` of what is written; `conversation` says what the last one means."""
    add = group.add_argument
    add("--agent", dest="agent_id", metavar="A", help="agent that owns the memory")
    add("--user", dest="user_id", metavar="U", help="user who owns the memory")
    add("--conversation", dest="conversation_id", metavar="ID", help=conversation)


def add_model_options(group: Group, *, answers: bool = True) -> None:
    """Add `--model` and `--base-url`, and `--answer` where the model `answers`."""
    add = group.add_argument
    add(
        "--model",
        dest="llm_model",
        metavar="NAME",
        help=f"chat model{' that plans, judges and answers' if answers else ''}, also as provider:model "
        "(default: $RECALL_LOOP_LLM_MODEL, else none)",
    )
    add(
        "--base-url",
        dest="llm_base_url",
        metavar="URL",
        help="OpenAI-compatible chat API (default: $RECALL_LOOP_LLM_BASE_URL, else OpenAI's); "
        "its key is $RECALL_LOOP_LLM_API_KEY",
    )
    if answers:
        add(
            "--answer",
            dest="write_answer",
            action=argparse.BooleanOptionalAction,
            help="write an answer with citations (default: if a chat model is set)",
        )


def add_tenant_option(group: Group, *, required: bool = False) -> None:
    """Add `--tenant`."""
    default = "" if required else " (default: $RECALL_LOOP_TENANT, else `default`)"
    group.add_argument(
        "--tenant", metavar="T", required=required, help=f"tenant whose memory is used; tenants share nothing{default}"
    )


def add_scope_options(group: Group, records: str = "records") -> None:
    """Add `--agent`, `--scope`, `--user` and `--conversation`, which narrow a tenant's memory."""
    add = group.add_argument
    add("--agent", dest="agent_id", metavar="A", help=f"only this agent's {records} (default: all)")
    add(
        "--scope",
        choices=("local", "constellation"),
        help="local: the agent itself; constellation: the agents of its group (default: local)",
    )
    add("--user", dest="user_id", metavar="U", help=f"only this user's {records} (default: all)")
    add(
        "--conversation",
        dest="conversation_id",
        metavar="ID",
        help=f"only this conversation's {records} (default: all)",
    )


def add_types_option(group: Group, default: str) -> None:
    """Add `--types`; `default` says which are searched without it."""
    group.add_argument(
        "--types",
        dest="content_types",
        type=comma_separated,
        metavar="T,..",
        help=f"fact, archival, message, trajectory (default: {default})",
    )


def add_language_option(group: Group, what: str, source: str = "its words") -> None:
    """Add `--language` for `what`; without it, the language is detected from `source`."""
    group.add_argument(
        "--language",
        metavar="CODE",
        help=f"language of {what}, such as nl (ISO 639-1; default: detected from {source})",
    )


def add_listen_options(group: Group) -> None:
    """Add the address and the keys of an HTTP service."""
    add = group.add_argument
    add("--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)")
    add("--port", metavar="N", help="port; 0 = a free one (default: 8321)")
    add("--keys", dest="keys_file", type=Path, metavar="FILE", help="file of API keys, made by `recall-loop keys add`")


def add_batch_size_option(group: Group, items: str) -> None:
    """Add `--batch-size`, a number of `items` such as lines."""
    group.add_argument(
        "--batch-size",
        type=bounded_int(1, MAX_BATCH_SIZE),
        default=BATCH_SIZE,
        metavar="N",
        help=f"{items} written and acknowledged at a time, 1 to {MAX_BATCH_SIZE} (default: %(default)s)",
    )


def add_json_option(group: Group) -> None:
    """Add `--json` to an action that prints text by default."""
    group.add_argument("--json", action="store_true", help="print one JSON object (default: text)")


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add `--log-level` and `--log-format`."""
    log = parser.add_argument_group("log", "Log lines on standard error.")
    log.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="minimum level; info logs a line for each finished run (default: $RECALL_LOOP_LOG_LEVEL, else warning)",
    )
    log.add_argument(
        "--log-format",
        choices=("console", "json"),
        help="readable lines, or one JSON object per line (default: $RECALL_LOOP_LOG_FORMAT, else console)",
    )


def add_action(
    actions: Any,
    name: str,
    words: str,
    example: str = "--store ./my-memory",
    *,
    stored: bool = True,
    tenant: bool = True,
    writes: bool = False,
) -> argparse.ArgumentParser:
    """Add an action with its description, an example, and where its records are; return its parser."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=words, description=f"{words[0].upper()}{words[1:]}."
    )
    parser.epilog = f"example:\n  {parser.prog} {example}"
    if stored:
        add_store_option(parser, writes=writes)
    if tenant:
        add_tenant_option(parser)
    return parser


def given_fields(args: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Return those of the fields `names` that the command line gives."""
    return {name: value for name in names if (value := getattr(args, name, None)) is not None}


def not_blank(text: str) -> str:
    """Return an argument that isn't blank."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"got {text!r}; allowed: text that isn't blank")
    return text


def comma_separated(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list."""
    return tuple(name.strip() for name in text.split(","))


def whole_numbers(text: str) -> tuple[int, ...]:
    """Return the whole numbers in a comma-separated list."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        message = f"got {text!r}; allowed: whole numbers separated by commas, such as 5,10,20"
        raise argparse.ArgumentTypeError(message) from None


def bounded_int(low: int, high: int) -> Callable[[str], int]:
    """Return an argparse type: an integer from `low` to `high`."""
    return _bounded(int, lambda value: low <= value <= high, f"an integer from {low} to {high}")


def bounded_seconds(high: float) -> Callable[[str], float]:
    """Return an argparse type: seconds, more than 0 and at most `high`."""
    return _bounded(float, lambda value: 0 < value <= high, f"seconds, more than 0 and at most {high:,.0f}")


def _bounded(convert: Callable[[str], Any], fits: Callable[[Any], bool], allowed: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        with suppress(ValueError):
            if fits(value := convert(text)):
                return value
        raise argparse.ArgumentTypeError(f"got {text!r}; allowed: {allowed}")

    return parse
