"""Values of a chat model that are kept for the very same prompt."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

from pydantic import BaseModel

from recall_loop.llm.structured.output_schemas import reply_schema
from recall_loop.prompts.templates import RenderedPrompt


class ReplyCache:
    """The last `entries` values, by exact prompt, schema and endpoint; 0 keeps none. Only validated values go in."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, BaseModel] = OrderedDict()

    def key(self, endpoint: str, prompt: RenderedPrompt, schema: type[BaseModel]) -> str:
        """Return the key of an ask; empty where nothing is kept."""
        if not self._entries:
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
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        return None if found is None else found.model_copy(deep=True)

    def put(self, key: str, value: BaseModel) -> None:
        """Keep a value, and let go of the one that was not used for longest."""
        if not self._entries:
            return
        with self._lock:
            self._kept[key] = value.model_copy(deep=True)
            self._kept.move_to_end(key)
            while len(self._kept) > self._entries:
                self._kept.popitem(last=False)
