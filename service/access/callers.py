"""Who calls, over HTTP or MCP."""

from __future__ import annotations

from dataclasses import dataclass

from recall_loop.service.access.api_keys import KeyRole

_ROLE_RANKS = {KeyRole.METRICS: 0, KeyRole.READ: 1, KeyRole.WRITE: 2, KeyRole.ADMIN: 3}


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, identified by the credential alone; `key_id` is None where the service runs without keys."""

    tenant: str
    key_id: str | None
    role: KeyRole

    def has_role(self, role: KeyRole) -> bool:
        """Return whether it may do what `role` may."""
        return _ROLE_RANKS[self.role] >= _ROLE_RANKS[role]
