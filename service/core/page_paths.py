"""The files of the inspector page, and the paths at which they are served."""

from __future__ import annotations

_SCRIPTS = ("app", "ask", "chart", "dom", "facts", "http", "problems", "replay", "runs")
PAGE_FILES = ("icon.svg", "style.css", "words.json", *(f"{name}.js" for name in _SCRIPTS))
PAGE_PATHS = frozenset({"/", *(f"/page/{name}" for name in PAGE_FILES)})
