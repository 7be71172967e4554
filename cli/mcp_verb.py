"""`recall-loop mcp`: the memory as an MCP server, over standard input and output or over HTTP (OPS-6)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.shared_options import (
    add_listen_options,
    add_model_options,
    add_scope_options,
    add_store_option,
    add_tenant_option,
)
from recall_loop.cli.serve_verb import run as serve_http

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Serve a memory to clients of the Model Context Protocol, with tools that retrieve, search, list, add, update and erase.
Over standard input and output (the default), the options determine whose memory is used and which part of it, and no
call can change that. --http starts the service of `recall-loop serve`; its /mcp takes the service's keys.
"""
_EXAMPLE = """\
examples:
  recall-loop mcp --store ./my-memory --tenant acme
  recall-loop mcp --store ./my-memory --tenant acme --agent lena --scope constellation --read-only
  recall-loop mcp --http --store ./my-memory --keys keys.json --port 8321
"""
_STDIO_ONLY = {
    "tenant": "--tenant",
    "agent_id": "--agent",
    "user_id": "--user",
    "conversation_id": "--conversation",
    "scope": "--scope",
}
_HTTP_ONLY = {"host": "--host", "port": "--port", "keys_file": "--keys"}
_CALL_SECONDS = 600


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "mcp", help="serve the memory over the Model Context Protocol", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add_store_option(parser, writes=True)
    parser.add_argument("--read-only", action="store_true", default=None, help="offer no tool that writes")
    add_model_options(parser)
    scope = parser.add_argument_group(
        "whose memory",
        "Over standard input and output: the records to read, and the owner of added ones. Over HTTP, the API key "
        "decides.",
    )
    add_tenant_option(scope)
    add_scope_options(scope)
    http = parser.add_argument_group("over HTTP")
    http.add_argument("--http", action="store_true", help="serve HTTP instead of standard input and output")
    add_listen_options(http)
    parser.set_defaults(access_log=False)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Serve until the client leaves, or until told to end."""
    from recall_loop.service.core.config import require_mcp

    require_mcp()
    _check(args)
    if args.http:
        return serve_http(args, settings)
    from recall_loop.cli.core.common import open_store, scope_from
    from recall_loop.service.mcp.mcp_server import serve_stdio

    scope, read_only = scope_from(args, settings), bool(args.read_only)
    with open_store(settings, create=not read_only, read_only=read_only) as store:
        serve_stdio(store, settings, scope, seconds=_CALL_SECONDS)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse options that would have no effect."""
    from recall_loop.state.errors import InvalidInputError

    for field, option in (_STDIO_ONLY if args.http else _HTTP_ONLY).items():
        value = getattr(args, field)
        if value is not None:
            allowed = "nothing with --http: the API key decides it" if args.http else "nothing without --http"
            raise InvalidInputError(option, value, allowed)
