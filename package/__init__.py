"""Recall Loop: a memory-retrieval agent that searches until it has enough new evidence.

The public names, under SemVer, are those of `__init__.pyi`. Each is loaded when it is first used, so that importing the
package, or a schema from it, loads neither Chroma nor LangGraph.
"""

import lazy_loader

_load, _, _NAMES = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *_NAMES]  # noqa: PLE0604 - strings all the same


def __getattr__(name: str) -> object:
    """Load a public name from its home, once (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("recall-loop")
    else:
        value = _load(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
