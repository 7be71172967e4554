"""Parts of the product put out of action for the length of a run, to see what they are worth (OPS-4).

What a setting can turn off is turned off by that setting. For the rest a name of a module stands for something
else while a run lasts: what nobody would turn off in production gets no setting of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Patch:
    """What a module-level name stands for meanwhile.

    Attributes:
        module: the module that looks the name up, below `recall_loop`.
        name: the name; it must be there.
        value: what it stands for.
    """

    module: str
    name: str
    value: Any


@contextmanager
def apply_patches(swaps: Sequence[Patch]) -> Iterator[None]:
    """Let every name stand for its swap's value, in the whole process; for measuring alone, by one thread.

    Raises:
        AttributeError: a module has no such name any more.
    """
    with ExitStack() as stack:
        for swap in swaps:
            stack.enter_context(_apply_patch(swap))
        yield


@contextmanager
def _apply_patch(swap: Patch) -> Iterator[None]:
    module = import_module(f"recall_loop.{swap.module}")
    own = getattr(module, swap.name)
    setattr(module, swap.name, swap.value)
    try:
        yield
    finally:
        setattr(module, swap.name, own)
