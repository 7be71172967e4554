"""A retrieval request from the options of the command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recall_loop.cli.core.common import scope_from
from recall_loop.cli.core.shared_options import given_fields
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings.settings import Settings

_LISTS = ("agent_ids", "tags", "tools_used")


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
    fields = given_fields(args, RetrieveRequest.model_fields) | {"messages": messages, "tenant": settings.tenant}
    if args.filter:
        fields["filters"] = parse_filters(args.filter)
    if args.types:
        fields["content_types"] = [name.strip() for name in args.types.split(",")]
    if args.stream and not args.json:
        fields["debug"] = True
    request = validate_model(RetrieveRequest, fields)
    scope_from(args, settings)  # options that don't fit together are refused before a store is opened
    return request


def parse_filters(pairs: Sequence[str]) -> Mapping[str, Any]:
    """Return `KEY=VALUE` pairs as filter fields; `tags`, `agent_ids` and `tools_used` gather their repetitions.

    Raises:
        InvalidInputError: a pair has no `=`, or a key is given twice that takes one value.
    """
    filters: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidInputError("--filter", pair, "KEY=VALUE")
        if key in _LISTS:
            filters.setdefault(key, []).append(value)
        elif key in filters:
            raise InvalidInputError(f"--filter {key}", value, "one value")
        else:
            filters[key] = value
    return filters


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
