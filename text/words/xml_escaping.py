"""Escapes text between tags: whatever was said or stored is data, and must not open or close a tag."""

from __future__ import annotations

from xml.sax.saxutils import escape


def escape_text(text: str) -> str:
    """Return `text` on one line, with tag characters as entities."""
    return escape(" ".join(text.split()))
