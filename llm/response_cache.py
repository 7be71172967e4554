"""Values of a chat model that are kept for the very same prompt."""

from __future__ import annotations

import hashlib
import threading

from cachetools import LRUCache
from pydantic import BaseModel

from recall_loop.llm.structured.output_schemas import reply_schema
from recall_loop.prompts.templates import RenderedPrompt


class ReplyCache:
    """The last `entries` values, by exact prompt, schema and endpoint; 0 keeps none. Only validated values go in."""

    def __init__(self, entries: int) -> None:
        self._lock = threading.Lock()
        self._values: LRUCache[str, BaseModel] = LRUCache(entries)

    def key(self, endpoint: str, prompt: RenderedPrompt, schema: type[BaseModel]) -> str:
        """Return the key of an ask; empty where nothing is kept."""
        if not self._values.maxsize:
            return ""
        parts = (
            endpoint,
            prompt.system,
            prompt.user,
            schema.__module__,
            schema.__qualname__,
            reply_schema(schema).text,
        )
        return hashlib.sha256("\0".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "replace")).hexdigest()

    def get(self, key: str) -> BaseModel | None:
        """Return a copy of the value of `key`, which counts as used now."""
        with self._lock:
            found = self._values.get(key)
        return None if found is None else found.model_copy(deep=True)

    def put(self, key: str, value: BaseModel) -> None:
        """Keep a value, and drop the one that was not used for longest."""
        if self._values.maxsize:
            with self._lock:
                self._values[key] = value.model_copy(deep=True)
