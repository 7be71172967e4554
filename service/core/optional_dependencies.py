"""Parts of the service that not every installation has."""

from __future__ import annotations

from importlib.util import find_spec

from recall_loop.state.errors import UnsupportedOptionError


def has_mcp() -> bool:
    """Return whether the extra `mcp` is installed."""
    return find_spec("mcp") is not None


def require_mcp(what: str) -> None:
    """Check that the extra `mcp` is installed.

    Raises:
        UnsupportedOptionError: it is not.
    """
    if not has_mcp():
        raise UnsupportedOptionError("command", what, "pip install 'recall-loop[mcp]' first")
