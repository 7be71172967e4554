"""Paths that need no key: the inspector page, and those that orchestrators ask."""

from __future__ import annotations

_SCRIPTS = ("app", "ask", "chart", "dom", "facts", "http", "problems", "replay", "runs")
PAGE_FILES = ("icon.svg", "style.css", "words.json", *(f"{name}.js" for name in _SCRIPTS))
PAGE_PATHS = frozenset({"/", *(f"/page/{name}" for name in PAGE_FILES)})
# What an orchestrator asks, and what describes the service: no key, and no part in the limits.
OPEN_PATHS = frozenset({"/health", "/ready", "/openapi.json"}) | PAGE_PATHS
