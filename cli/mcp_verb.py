"""`recall-loop mcp`: the memory as an MCP server, over standard input and output or over HTTP (OPS-6)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.common import (
    add_model_options,
    add_store_option,
    add_tenant_option,
    bounded_int,
    read_settings,
)

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.state.scope import Scope
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Give a program that speaks the Model Context Protocol the tools retrieve, search, search_trajectories, add and
erase. Over standard input and output (the default) whose memory it is and which part of it is said here, and no
call can say otherwise. With --http it is the service of `recall-loop serve`, whose /mcp takes the service's keys.
"""
_EXAMPLE = """\
examples:
  recall-loop mcp --store ./memory --tenant acme
  recall-loop mcp --store ./memory --tenant acme --agent lena --scope constellation --read-only
  recall-loop mcp --http --store ./memory --keys keys.json --port 8321
"""
_STDIO_ONLY = ("tenant", "agent", "user", "conversation", "scope")
_HTTP_ONLY = ("host", "port", "keys")
_CALL_SECONDS = 600


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "mcp", help="be a memory for programs that speak MCP", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add_store_option(parser)
    parser.add_argument("--read-only", action="store_true", default=None, help="offer no tool that writes")
    add_model_options(parser)
    reach = parser.add_argument_group("whose memory", "Over standard input and output; over HTTP the key says it.")
    add_tenant_option(reach)
    reach.add_argument("--agent", metavar="ID", help="only what belongs to this agent; what is added belongs to it")
    reach.add_argument("--scope", choices=("local", "constellation"), help="read the agent alone, or its group")
    reach.add_argument("--user", metavar="ID", help="only what belongs to this user; what is added belongs to it")
    reach.add_argument("--conversation", metavar="ID", help="only this conversation; what is added belongs to it")
    http = parser.add_argument_group("over HTTP")
    http.add_argument("--http", action="store_true", help="serve HTTP instead of standard input and output")
    http.add_argument("--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)")
    http.add_argument("--port", metavar="N", type=bounded_int(0, 65_535), help="port; 0 = a free one (default: 8321)")
    http.add_argument("--keys", metavar="FILE", help="file of API keys, as `recall-loop keys add` makes it")


def run(args: argparse.Namespace) -> int:
    """Serve until the client leaves, or until told to end.

    Raises:
        InvalidInputError: an option is not allowed, or belongs to the other way of serving.
        UnsupportedOptionError: the extra `mcp` is not installed.
        StoreError: the store can't be opened.
    """
    from recall_loop.service.core.optional_dependencies import require_mcp

    require_mcp("recall-loop mcp")
    _check(args)
    if args.http:
        from recall_loop.cli.serve_verb import run as serve

        return serve(argparse.Namespace(**{**vars(args), "workers": None, "request_log": None, "access_log": False}))
    settings = read_settings(args)
    _serve(args, settings, _scope(args, settings))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse options that would have no effect."""
    from recall_loop.state.errors import InvalidInputError

    for name in _STDIO_ONLY if args.http else _HTTP_ONLY:
        value = getattr(args, name)
        if value is not None:
            allowed = "nothing with --http: the key says it" if args.http else "nothing without --http"
            raise InvalidInputError(f"--{name}", value, allowed)


def _scope(args: argparse.Namespace, settings: Settings) -> Scope:
    from recall_loop.state.errors import validate_model
    from recall_loop.state.scope import Scope

    given = {
        "tenant": settings.tenant if args.tenant is None else args.tenant,
        "agent_id": args.agent,
        "mode": args.scope,
        "user_id": args.user,
        "conversation_id": args.conversation,
    }
    return validate_model(Scope, {name: value for name, value in given.items() if value is not None})


def _serve(args: argparse.Namespace, settings: Settings, scope: Scope) -> None:
    from recall_loop.cli.core.common import open_store
    from recall_loop.service.mcp.mcp_stdio import serve_stdio

    read_only = bool(args.read_only)
    with open_store(args.store, settings, create=not read_only, read_only=read_only) as store:
        serve_stdio(store, settings, scope, seconds=_CALL_SECONDS)
