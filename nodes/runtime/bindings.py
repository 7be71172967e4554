"""The store and the chat model from callers, checked without importing LangChain unless a model is given."""

from __future__ import annotations

from recall_loop.memory.store.files.store_place import check_store
from recall_loop.state.errors import InvalidInputError


def check_bindings(store: object, llm: object) -> None:
    """Check the store and the chat model that a caller passes.

    Raises:
        InvalidInputError: `store` is no store, or `llm` is no chat model of LangChain's (see `bound_models`).
    """
    if isinstance(llm, str):
        if not llm.strip():
            raise InvalidInputError("llm", llm, "a LangChain chat model, the name of a model, or None")
    elif llm is not None:
        from recall_loop.llm.endpoint.wrapped_models import bound_models

        bound_models(llm)
    if store is not None:
        check_store(store)
