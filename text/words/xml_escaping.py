"""Text that is put between tags: what was said or stored is data, and must not close or open a tag."""

from __future__ import annotations

from xml.sax.saxutils import escape


def escape_text(text: str) -> str:
    """Return `text` on one line, with the signs of tags as entities."""
    return escape(" ".join(text.split()))
