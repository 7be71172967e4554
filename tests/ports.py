"""Ports for servers that are started as commands, and so can't be given a bound socket."""

from __future__ import annotations

import os
import socket

# Below those that the system gives to outgoing connections, which are made all the time while a server starts.
_FIRST, _LAST = 12_000, 30_000
_next = _FIRST + os.getpid() * 97 % (_LAST - _FIRST)


def free_port() -> int:
    """Return a port of loopback that nobody uses; another one on every call."""
    global _next
    for _ in range(_LAST - _FIRST):
        port, _next = _next, _FIRST + (_next + 1 - _FIRST) % (_LAST - _FIRST)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no port is free")
