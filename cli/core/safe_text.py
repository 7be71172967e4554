"""Text from memory made safe for a terminal, and cut to size.

It may hold anything: control characters are shown as symbols, so it cannot move the cursor, recolour or rename a
terminal.
"""

from __future__ import annotations

import json
import re
import sys

# Beyond ASCII: C1 controls, separators that break lines, and marks that turn the reading direction.
_UNSAFE = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
_UNPRINTABLE = re.compile(f"[\x00-\x1f{_UNSAFE}\ud800-\udfff]")
_UNSAFE_IN_JSON = re.compile(f"[{_UNSAFE}]")


def sanitize(text: str) -> str:
    """Return `text` on one line with every control or invisible character shown as a symbol."""
    return _UNPRINTABLE.sub(_symbol, text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\\u{code:04x}"


def sanitize_json(value: str) -> str:
    """Return JSON text with terminal controls as escapes; it reads back as the same value."""
    if (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8":
        return json.dumps(json.loads(value))
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", value)


def shorten(text: str, limit: int) -> str:
    """Return `text` with at most `limit` characters, cut at a word, with an ellipsis where cut."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    return (head.rsplit(" ", 1)[0] if " " in head[limit // 2 :] else head).rstrip() + "…"
