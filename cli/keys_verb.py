"""`recall-loop keys`: the API keys of the HTTP service."""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.service.access.api_keys import Key
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Add, list, rotate and revoke the API keys of `recall-loop serve`. A key belongs to one tenant, and a tenant may have
several. It is printed only once: the file holds just a hash. A running service sees changes immediately.
"""
_EXAMPLE = """\
examples:
  recall-loop keys add --tenant acme --keys keys.json
  recall-loop keys add --tenant acme --role read --expires 90d --keys keys.json
  recall-loop keys list --keys keys.json
  recall-loop keys rotate 3f9a0c51b2de --grace 1d --keys keys.json
  recall-loop keys revoke 3f9a0c51b2de --keys keys.json
roles:
  read      search and read records
  write     also write and delete records (default)
  admin     also erase users, agents, conversations and the tenant
  metrics   read /metrics, and nothing else
"""
ROLES = ("read", "write", "admin", "metrics")
_SPAN = re.compile(r"(\d{1,5})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def add_parser(subparsers: Any) -> None:
    """Add the verb, its actions and their options."""
    parser = subparsers.add_parser(
        "keys", help="manage the service's API keys", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="create a key and print it once")
    add.add_argument("--tenant", metavar="T", required=True, help="tenant whose memory the key gives access to")
    add.add_argument("--role", choices=ROLES, default="write", help="permissions of the key (default: write)")
    add.add_argument("--expires", metavar="WHEN", help="date, time, or a span such as 90d, 12h or 30m (default: never)")
    listing = actions.add_parser("list", help="list the keys, without their secrets")
    listing.add_argument("--json", action="store_true", help="print one JSON object per key")
    rotate = actions.add_parser("rotate", help="replace a key by a new one with the same rights")
    rotate.add_argument("id", metavar="ID", help="id of the old key, as `list` shows it")
    rotate.add_argument(
        "--grace", metavar="SPAN", help="how long the old key keeps working: 1d, 12h, 30m (default: none)"
    )
    revoke = actions.add_parser("revoke", help="revoke a key")
    revoke.add_argument("id", metavar="ID", help="id of the key, as `list` shows it")
    for action in (add, listing, rotate, revoke):
        action.add_argument("--keys", metavar="FILE", help="file of API keys (default: $RECALL_LOOP_SERVICE_KEYS_FILE)")


def run(args: argparse.Namespace, _: Settings) -> int:
    """Do the action."""
    actions = {"add": _add, "list": _list, "rotate": _rotate, "revoke": _revoke}
    actions[args.action](args, _keys_path(args))
    return 0


def _keys_path(args: argparse.Namespace) -> Path:
    from recall_loop.service.core.config import ServiceConfig
    from recall_loop.state.errors import InvalidInputError

    path = Path(args.keys) if args.keys else ServiceConfig().keys_file
    if path is None:
        raise InvalidInputError("--keys", args.keys, "a file; or set RECALL_LOOP_SERVICE_KEYS_FILE")
    return path


def _add(args: argparse.Namespace, path: Path) -> None:
    from recall_loop.service.access.api_keys import KeyRole, add_key

    expires = None if args.expires is None else _parse_time(args.expires)
    add_key(path, args.tenant, KeyRole(args.role), expires, deliver=_print_new)


def _rotate(args: argparse.Namespace, path: Path) -> None:
    from recall_loop.service.access.api_keys import rotate_key

    until = None if args.grace is None else datetime.now(UTC) + _parse_duration("--grace", args.grace)
    rotate_key(path, args.id, until, deliver=_print_new)
    sys.stderr.write(f"{args.id} {'is revoked' if until is None else f'works until {until:%Y-%m-%d %H:%M} UTC'}\n")


def _print_new(key: Key, secret: str) -> None:
    """Print the secret alone on standard output, so that a script can take it."""
    sys.stdout.write(f"{secret}\n")
    sys.stdout.flush()
    sys.stderr.write(f"key {key.id}: tenant {key.tenant!r}, role {key.role.value}; it is shown only once\n")


def _revoke(args: argparse.Namespace, path: Path) -> None:
    from recall_loop.service.access.api_keys import revoke_key

    sys.stderr.write(f"{revoke_key(path, args.id).id} is revoked\n")


def _list(args: argparse.Namespace, path: Path) -> None:
    from recall_loop.service.access.api_keys import read_keys

    now = datetime.now(UTC)
    for key in read_keys(path):
        if args.json:
            sys.stdout.write(key.model_dump_json(exclude={"sha256"}, exclude_none=True) + "\n")
            continue
        ends = "never" if key.works_until is None else f"{key.works_until:%Y-%m-%d %H:%M}"
        columns = (key.id, key.state(now), key.role.value, f"made {key.created_at:%Y-%m-%d}", f"expires {ends}")
        sys.stdout.write("  ".join((*columns, repr(key.tenant))) + "\n")


def _parse_time(text: str) -> datetime:
    from recall_loop.state.errors import InvalidInputError

    if _SPAN.fullmatch(text):
        return datetime.now(UTC) + _parse_duration("--expires", text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError("--expires", text, "a date, a time, or a span such as 90d, 12h or 30m") from error
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    if moment <= datetime.now(UTC):
        raise InvalidInputError("--expires", text, "a time in the future")
    return moment


def _parse_duration(option: str, text: str) -> timedelta:
    from recall_loop.state.errors import InvalidInputError

    match = _SPAN.fullmatch(text)
    if match is None or not int(match[1]):
        raise InvalidInputError(option, text, "a span such as 90d, 12h or 30m")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
