"""`recall-loop serve`: the HTTP service over a store (OPS-1)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.common import add_model_options, bounded_int, read_settings, store_path

if TYPE_CHECKING:  # loaded when the verb runs
    from socket import socket

    from recall_loop.service.core.config import ServiceConfig

_DESCRIPTION = """\
Answer retrieval requests over HTTP. The store is opened for writing, and made if there is none. Without --keys
everybody on this machine may read and write, and the service listens on loopback only. Every other knob of
the service is a variable: see docs/operations.md.
"""
_EXAMPLE = """\
examples:
  recall-loop serve --store ./memory
  recall-loop serve --store ./memory --keys keys.json --host 0.0.0.0 --port 8321
  recall-loop serve --store ./memory --chroma-url http://127.0.0.1:8000 --workers 4 --keys keys.json
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser("serve", help="answer over HTTP", description=_DESCRIPTION, epilog=_EXAMPLE)
    parser.add_argument("--store", metavar="PATH", help="folder of the memory store (default: $RECALL_LOOP_STORE_PATH)")
    parser.add_argument(
        "--chroma-url",
        "--url",
        dest="url",
        metavar="URL",
        help="Chroma server that holds the vectors; a store remembers its own (default: $RECALL_LOOP_CHROMA_URL)",
    )
    parser.add_argument("--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", metavar="N", type=bounded_int(0, 65_535), help="port; 0 = a free one (default: 8321)")
    parser.add_argument("--keys", metavar="FILE", help="file of API keys, as `recall-loop keys add` makes it")
    parser.add_argument(
        "--workers",
        metavar="N",
        type=bounded_int(1, 64),
        help="processes that answer; needs a Chroma server (default: 1)",
    )
    parser.add_argument(
        "--read-only", action="store_true", default=None, help="write nothing; another process may have the store open"
    )
    parser.add_argument(
        "--request-log", metavar="FILE", help="append each retrieval request, with its words, for `recall-loop replay`"
    )
    parser.add_argument("--access-log", action="store_true", help="log a line per request, without its words")
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until told to end; 2 where the process that writes can't begin.

    Raises:
        InvalidInputError: an option is not allowed, or there are no keys and the address isn't loopback.
        StoreError: the store can't be opened.
        OSError: the request log can't be written.
    """
    settings = read_settings(args)
    settings = settings.model_copy(update={"store_path": str(store_path(args.store, settings))})
    config = _config(args)
    from recall_loop.service.process.lifecycle import NO_KEYS_WARNING
    from recall_loop.service.serving import serve
    from recall_loop.service.workers.supervisor import WriterStartError

    def announce(sock: socket) -> None:
        host, port = sock.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        if config.keys_file is None:
            sys.stderr.write(f"recall-loop: WARNING: {NO_KEYS_WARNING}\n")
        sys.stderr.write(f"recall-loop: serving {settings.store_path} at http://{shown}:{port}\n")
        sys.stderr.flush()

    try:
        serve(config, settings, access_log=args.access_log, announce=announce)
    except WriterStartError:
        return 2  # it has said why
    return 0


def _config(args: argparse.Namespace) -> ServiceConfig:
    from recall_loop.service.core.config import ServiceConfig

    given: dict[str, Any] = {
        "host": args.host,
        "port": args.port,
        "workers": args.workers,
        "keys_file": Path(args.keys) if args.keys else None,
        "read_only": args.read_only,
        "request_log": Path(args.request_log) if args.request_log else None,
    }
    chosen = ServiceConfig(**{name: value for name, value in given.items() if value is not None})
    # A service that was asked to serve a store doesn't quietly go without writing.
    return chosen if chosen.read_only is not None else chosen.model_copy(update={"read_only": False})
