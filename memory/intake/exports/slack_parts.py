"""What a message of Slack says in its parts, where its own text is empty: messages of programs often say all there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from recall_loop.memory.intake.formats.source_items import listed
from recall_loop.memory.parsing.foreign_json import as_mapping

_DEEPEST = 12  # a list in a quotation in a block is six levels down
# Elements that name something: the sigil of Slack's markup, and the field that holds the id.
_NAMED = {"user": ("@", "user_id"), "channel": ("#", "channel_id"), "broadcast": ("!", "range")}
_IN_ONE_LINE = ("rich_text_section", "rich_text_preformatted", "rich_text_quote")


def parts_text(message: Mapping[str, Any]) -> str:
    """Return what a message's blocks say, or else its attachments, with Slack's marks; "" where neither does."""
    attachments = (_attachment_text(as_mapping(one)) for one in listed(message.get("attachments")))
    return _joined(_block_text(one) for one in listed(message.get("blocks"))) or _joined(attachments)


def _block_text(block: Any, depth: int = 0) -> str:
    """Return the text of a block or of an element in it; "" for pictures, buttons and elements nested too deeply."""
    block = as_mapping(block)
    if depth > _DEEPEST:
        return ""
    name = _NAMED.get(str(block.get("type")))
    if name is not None:
        return f"<{name[0]}{block[name[1]]}>" if block.get(name[1]) else ""
    if block.get("type") == "emoji":
        return f":{block.get('name')}:"
    if block.get("type") == "link":
        return f"<{block.get('url')}|{block['text']}>" if block.get("text") else f"<{block.get('url')}>"
    text = block.get("text")
    if isinstance(text, str):
        return text if block.get("type") == "mrkdwn" else escape(text, quote=False)
    parts = [
        _block_text(one, depth + 1) for one in (text, *listed(block.get("fields")), *listed(block.get("elements")))
    ]
    return "".join(parts) if block.get("type") in _IN_ONE_LINE else _joined(parts)


def _attachment_text(attachment: Mapping[str, Any]) -> str:
    fields = [as_mapping(one) for one in listed(attachment.get("fields"))]
    texts = [attachment.get(name) for name in ("pretext", "title", "text")]
    texts += [": ".join(str(one[name]) for name in ("title", "value") if one.get(name)) for one in fields]
    texts += [_block_text(one) for one in listed(attachment.get("blocks"))]
    return _joined(texts) or _joined([attachment.get("fallback")])


def _joined(texts: Iterable[Any]) -> str:
    return "\n".join(text.strip() for text in texts if isinstance(text, str) and text.strip())
