"""LangGraph's SqliteStore: documents under a namespace and a key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.imports.external_memory import (
    DefaultOwner,
    ImportItem,
    SourceError,
    is_past,
    stable_id,
    to_json_checked,
    to_json_text,
)
from recall_loop.memory.intake.imports.external_sqlite import column_names, iter_rows, open_readonly
from recall_loop.memory.store.files.store_place import checked_file
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.types import ContentType

# Fields in which documents keep their text, according to LangGraph's and LangMem's examples.
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
    """A template such as `memories.{user}.*`: the wanted namespaces, and the meaning of their parts.

    One that names an unknown part raises `InvalidInputError`.
    """

    def __init__(self, template: str) -> None:
        self._parts = template.split(".")
        matches = [_PLACEHOLDER.fullmatch(part) for part in self._parts]
        names = [match[1] for match in matches if match]
        words = [part for part, match in zip(self._parts, matches, strict=True) if not match]
        malformed = any(not word or "{" in word or "}" in word for word in words)
        if malformed or len(set(names)) < len(names) or not set(names) <= set(_PLACEHOLDERS):
            known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
            allowed = f"parts with dots between them, each a word, * or one of {known}"
            raise InvalidInputError("namespace", template, allowed)

    def match(self, namespace: str) -> dict[str, str] | None:
        """Return the record's fields that a namespace names; None if it isn't wanted."""
        given = namespace.split(".")
        if len(given) != len(self._parts):
            return None
        fields = {}
        for part, value in zip(self._parts, given, strict=True):
            if placeholder := _PLACEHOLDER.fullmatch(part):
                fields[_PLACEHOLDERS[placeholder[1]]] = value
            elif part not in ("*", value):
                return None
        return fields


class LangGraphStoreSource:
    """One SqliteStore file.

    Args:
        path: the SQLite file.
        owner: owner of items whose namespace names none.
        namespaces: template of `NamespaceTemplate`; absent = every namespace, and none of them names an owner.
        text_fields: dotted paths to the text in a document; the first that holds text counts.
        expired: also take items whose time to live is over.

    Raises:
        SourceError: it is not such a file.
        InvalidInputError: `namespaces` is no template.
    """

    description = "LangGraph SqliteStore"

    def __init__(
        self,
        path: str | Path,
        owner: DefaultOwner,
        *,
        namespaces: str | None = None,
        text_fields: tuple[str, ...] = (),
        expired: bool = False,
    ) -> None:
        self.path = checked_file(path)
        self._owner = owner
        self._namespaces = NamespaceTemplate(namespaces) if namespaces is not None else None
        self._fields = text_fields or TEXT_FIELDS
        self._expired = expired
        with open_readonly(self.path) as connection:
            if not {"prefix", "key", "value"} <= set(column_names(connection, "store")):
                raise SourceError(f"{path}: has no LangGraph table `store`")

    def items(self) -> Iterator[ImportItem]:
        """Yield the items in the order in which they were first put."""
        with open_readonly(self.path) as connection:
            for _, row in iter_rows(connection, "store", _COLUMNS):
                yield self._item(row)

    def _item(self, row: dict[str, Any]) -> ImportItem:
        namespace, key = str(row["prefix"]), str(row["key"])
        location = f"{namespace} / {key}"
        text = row["value"].decode("utf-8", "replace") if isinstance(row["value"], bytes) else str(row["value"])
        owner_fields = self._namespaces.match(namespace) if self._namespaces else {}
        if owner_fields is None:
            return ImportItem(location, text, left_out="in another namespace")
        # Times without a zone come from SQLite, which uses UTC.
        if not self._expired and is_past(row.get("expires_at")):
            return ImportItem(location, text, left_out="expired")
        try:
            value = to_json_checked(json.loads(text))
        except (ValueError, RecursionError) as error:
            return ImportItem(location, text, reason=f"value: not JSON: {str(error) or 'nested too deeply'}")
        document, field = document_text(value, self._fields)
        attributes = {"namespace": namespace.split("."), "key": key, "value": value}
        if field is not None:
            attributes |= {"text_field": field}
            if field in value:  # it is at the top level: no need to store it twice
                attributes["value"] = {name: part for name, part in value.items() if name != field}
        if row.get("expires_at") is not None:
            attributes["expires_at"] = str(row["expires_at"])
        fields: dict[str, Any] = {
            "id": stable_id("langgraph-store", namespace, key),
            "kind": ContentType.FACT,
            "text": document,
            "created_at": row.get("created_at"),
            "updated_at": row.get("updated_at"),
            "attributes": attributes,
        }
        return ImportItem(location, text, fields=self._owner.fill(fields | owner_fields))


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
