"""The store and the chat model from callers, checked without importing LangChain unless a model is given."""

from __future__ import annotations

from recall_loop.memory.store.files.store_place import check_store
from recall_loop.state.errors import InvalidInputError


def check_bindings(store: object, llm: object) -> None:
    """Check the store and the chat model that a caller passes.

    Raises:
        InvalidInputError: `store` is no store, or `llm` is no chat model of LangChain's.
    """
    if not (llm is None or (llm.strip() if isinstance(llm, str) else _is_chat_model(llm))):
        shown = llm if isinstance(llm, str) else type(llm).__name__
        raise InvalidInputError("llm", shown, "a LangChain chat model, the name of a model, or None")
    if store is not None:
        check_store(store)


def _is_chat_model(llm: object) -> bool:
    from langchain_core.language_models import BaseChatModel

    return isinstance(llm, BaseChatModel)
