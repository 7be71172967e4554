"""Addresses of records: a literal slash before `history` begins a part of one, `%2F` belongs to an id."""

from __future__ import annotations

from starlette.routing import Match
from starlette.types import Scope

from recall_loop.service.middleware.json_bodies import UniqueKeysRoute

_PARTS = ("history", "relations")


class RecordRoute(UniqueKeysRoute):
    """A route of one record or of a part of it, which never takes an address of the other for its own."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether the address is this route's, as routers ask."""
        match, found = super().matches(scope)
        raw = scope.get("raw_path")
        if match is Match.NONE or raw is None:
            return match, found
        is_part = self.path.endswith(_PARTS)
        nested = is_part or "/" in found["path_params"].get("record_id", "")
        names_part = nested and raw.decode("ascii", "replace").rpartition("/")[2] in _PARTS
        return (match, found) if is_part == names_part else (Match.NONE, {})
