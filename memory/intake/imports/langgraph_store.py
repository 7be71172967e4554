"""LangGraph's SqliteStore: documents under a namespace and a key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.imports.external_json import to_json_text
from recall_loop.memory.intake.imports.external_memory import (
    DefaultOwner,
    ImportItem,
    SourceError,
    is_past,
    stable_id,
    to_json_checked,
)
from recall_loop.memory.intake.imports.external_sqlite import column_names, iter_rows, open_readonly
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.types import ContentType

# Where documents keep their words, as far as LangGraph's and LangMem's examples agree.
TEXT_FIELDS = ("text", "content", "memory", "data", "page_content", "content.content")
_COLUMNS = ["prefix", "key", "value", "created_at", "updated_at", "expires_at"]
_PLACEHOLDERS = {
    "user": "user_id",
    "agent": "agent_id",
    "group": "group_id",
    "conversation": "conversation_id",
    "session": "session",
}
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class NamespaceTemplate:
    """A template such as `memories.{user}.*`: which namespaces are wanted, and what their parts mean.

    Raises:
        InvalidInputError: it names a part that there is not.
    """

    def __init__(self, template: str) -> None:
        allowed = "parts with dots between them, each a word, * or one of " + ", ".join(
            f"{{{name}}}" for name in _PLACEHOLDERS
        )
        self._parts = template.split(".")
        named = [found[1] for part in self._parts if (found := _PLACEHOLDER.fullmatch(part))]
        loose = [
            part
            for part in self._parts
            if not part or (("{" in part or "}" in part) and not _PLACEHOLDER.fullmatch(part))
        ]
        if loose or len(set(named)) < len(named) or not set(named) <= set(_PLACEHOLDERS):
            raise InvalidInputError("namespace", template, allowed)

    def match(self, namespace: str) -> dict[str, str] | None:
        """Return the record's fields that a namespace names; None where it isn't wanted."""
        given = namespace.split(".")
        if len(given) != len(self._parts):
            return None
        fields = {}
        for part, value in zip(self._parts, given, strict=True):
            named = _PLACEHOLDER.fullmatch(part)
            if named:
                fields[_PLACEHOLDERS[named[1]]] = value
            elif part not in ("*", value):
                return None
        return fields


class LangGraphStoreSource:
    """One SqliteStore file.

    Args:
        path: the SQLite file.
        owner: whose an item is where its namespace doesn't say.
        namespaces: template of `NamespaceTemplate`; absent = every namespace, and none of them says whose it is.
        text_fields: where the text stands in a document, as dotted paths; the first that holds text counts.
        expired: take items too whose time to live is over.

    Raises:
        SourceError: it is not such a file.
        InvalidInputError: `namespaces` is no template.
    """

    description = "LangGraph SqliteStore"

    def __init__(
        self,
        path: Path,
        owner: DefaultOwner,
        *,
        namespaces: str | None = None,
        text_fields: tuple[str, ...] = (),
        expired: bool = False,
    ) -> None:
        self.path = path
        self._owner = owner
        self._namespaces = NamespaceTemplate(namespaces) if namespaces is not None else None
        self._fields = text_fields or TEXT_FIELDS
        self._expired = expired
        with open_readonly(path) as connection:
            if not {"prefix", "key", "value"} <= set(column_names(connection, "store")):
                raise SourceError(f"{path}: no table `store` of LangGraph in it")

    def items(self) -> Iterator[ImportItem]:
        """Yield the items in the order in which they were first put."""
        with open_readonly(self.path) as connection:
            for _, row in iter_rows(connection, "store", _COLUMNS):
                yield self._item(row)

    def _item(self, row: dict[str, Any]) -> ImportItem:
        namespace, key = str(row["prefix"]), str(row["key"])
        place = f"{namespace} / {key}"
        text = row["value"].decode("utf-8", "replace") if isinstance(row["value"], bytes) else str(row["value"])
        whose = self._namespaces.match(namespace) if self._namespaces else {}
        if whose is None:
            return ImportItem(place, text, left_out="in another namespace")
        # Times without a zone are SQLite's own, which are UTC.
        if not self._expired and is_past(row.get("expires_at")):
            return ImportItem(place, text, left_out="expired")
        try:
            value = to_json_checked(json.loads(text))
        except (ValueError, RecursionError) as error:
            return ImportItem(place, text, reason=f"value: not JSON: {str(error) or 'nested too deeply'}")
        words, field = document_text(value, self._fields)
        attributes = {"namespace": namespace.split("."), "key": key, "value": value}
        if field is not None:
            attributes |= {"text_field": field}
            if field in value:  # it stands at the top: no need to keep it twice
                attributes["value"] = {name: part for name, part in value.items() if name != field}
        if row.get("expires_at") is not None:
            attributes["expires_at"] = str(row["expires_at"])
        fields: dict[str, Any] = {
            "id": stable_id("langgraph-store", namespace, key),
            "kind": ContentType.FACT,
            "text": words,
            "created_at": row.get("created_at"),
            "updated_at": row.get("updated_at"),
            "attributes": attributes,
        }
        return ImportItem(place, text, fields=self._owner.fill(fields | whose))


def document_text(value: Any, fields: tuple[str, ...]) -> tuple[str, str | None]:
    """Return the text of a document and the field that holds it; without one, all of it as lines `field: value`."""
    for path in fields:
        found = value
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if isinstance(found, str) and found.strip():
            return found, path
    if not isinstance(value, dict):
        return to_json_text(value), None
    lines = (f"{key}: {part if isinstance(part, str) else to_json_text(part)}" for key, part in value.items())
    return "\n".join(lines), None
