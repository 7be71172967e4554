"""A retrieval request from the options of the command line."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from recall_loop.cli.core.common import model_from, scope_from
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings.settings import Settings


def build_request(args: argparse.Namespace, settings: Settings) -> RetrieveRequest:
    """Return the request that the options describe.

    Raises:
        InvalidInputError: names the option's field, its value and what is allowed.
        OSError: the file of messages can't be read.
    """
    messages: list[Any] = read_messages(args.messages) if args.messages else []
    if args.question is not None:
        messages.append({"role": "user", "content": args.question})
    if not messages:
        raise InvalidInputError("QUESTION", None, "a question, or --messages FILE that ends with one")
    fields: dict[str, Any] = {"messages": messages, "tenant": settings.tenant}
    if args.stream and not args.json:
        fields["debug"] = True
    request = model_from(args, RetrieveRequest, **fields)
    scope_from(args, settings)  # options that don't fit together are refused before a store is opened
    return request


def read_messages(path: Path) -> list[Any]:
    """Return the messages of a file: a JSON list, an object with `messages`, or one object a line.

    Raises:
        InvalidInputError: the file is not JSON of that shape.
        OSError: it can't be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError("--messages", str(path), "a file in UTF-8") from error
    try:
        whole = json.loads(text)
    except ValueError:
        return [_message(path, number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if isinstance(whole, dict):
        whole = whole.get("messages", [whole])
    if not isinstance(whole, list):
        raise InvalidInputError("--messages", str(path), "a list of messages")
    return whole


def _message(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise InvalidInputError("--messages", f"{path}, line {number}", f"JSON ({error})") from error
