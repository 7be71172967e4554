"""`recall_loop.service.asgi:app`: the application for `langgraph.json` and ASGI servers, made when first asked for."""

from __future__ import annotations


def __getattr__(name: str) -> object:
    """Make the application from the environment, once (PEP 562)."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recall_loop.service.app import create_app

    globals()["app"] = application = create_app()
    return application
