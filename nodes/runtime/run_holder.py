"""What a call of the graph is given beside its input, and the run that its nodes share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recall_loop.nodes.runtime.bindings import check_bindings
from recall_loop.state.request import RetrieveRequest

if TYPE_CHECKING:
    from recall_loop.llm.endpoint.wrapped_models import ChatModel
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.nodes.runtime.run_context import RunContext


@dataclass(frozen=True)
class RunInputs:
    """Inputs that `retrieve` passes to a run besides the graph's own: objects that can't be in a checkpoint.

    Raises:
        InvalidInputError: `store` is no store, or `llm` is no chat model of LangChain's.
    """

    request: RetrieveRequest
    store: MemoryStore | None = None
    llm: ChatModel | str | None = None

    def __post_init__(self) -> None:
        """Check store and model."""
        check_bindings(self.store, self.llm)


@dataclass
class RunHolder:
    """Holds the context of one call of the graph, from its first node to its last.

    A resumed call, in this process or another, begins with an empty holder: the context is made from the state.
    Child graphs that run in parallel are separate calls.
    """

    inputs: RunInputs | None = None
    run: RunContext | None = None

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this the current holder for nodes that run inside the block."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[RunHolder | None] = ContextVar("recall_loop_run", default=None)


def current_holder() -> RunHolder:
    """Return the holder of the current call; an empty one outside of a call."""
    return _current.get() or RunHolder()
