"""An agent whose middleware recalls before it speaks and remembers afterwards: no tool to call, no node to place.

Run it with `python examples/agent_with_middleware.py`. A scripted model stands in for a real one, so that it needs no
key; give `agent` any chat model.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel, FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from recall_loop import Memory


class Remembering(AgentMiddleware):
    """Gives the model the memories about the last question, and stores the user's messages.

    Args:
        memory: the memory.
        user_id: owner of the memory; set by the program, never by the model.
    """

    def __init__(self, memory: Memory, user_id: str) -> None:
        """Bind the memory and its owner."""
        super().__init__()
        self._memory, self._user = memory, user_id

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        """Add the context block to the system message; the thread itself stays as it is."""
        return handler(self._told(request))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Do the same for `ainvoke` and `astream`, without holding up the event loop."""
        return await handler(await asyncio.to_thread(self._told, request))

    def _told(self, request: ModelRequest) -> ModelRequest:
        asked = _last_said(request.messages)
        recalled = self._memory.recall(asked.text, user_id=self._user).context if asked else ""
        before = request.system_message.content if request.system_message else ""
        return request.override(system_message=SystemMessage(f"{before}\n\n{recalled}".strip()))

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Store the user's message of this turn."""
        if said := _last_said(state["messages"]):
            self._memory.add(said, user_id=self._user)


def _last_said(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    """Return the user's last message; None if it has no text, such as a picture."""
    last = next((one for one in reversed(messages) if isinstance(one, HumanMessage)), None)
    return last if last and last.text.strip() else None


class Scripted(FakeMessagesListChatModel):
    """A model that echoes its input."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> Any:
        told = [str(one.content) for one in messages if isinstance(one, SystemMessage)]
        self.responses = [AIMessage(f"I was given:\n{told[0] if told else 'nothing'}")]
        return super()._generate(messages, *args, **options)


def agent(memory: Memory, user_id: str, model: BaseChatModel) -> Any:
    """Return an agent for one user."""
    return create_agent(model, system_prompt="Be brief.", middleware=[Remembering(memory, user_id)])


def talk(place: str | Path, lines: Sequence[tuple[str, str]]) -> None:
    """Have users' agents answer, from one memory that is opened once for all of them and closed at the end."""
    with Memory(place) as memory:
        for user, line in lines:
            told = agent(memory, user, Scripted(responses=[AIMessage("")])).invoke({"messages": [HumanMessage(line)]})
            print(f"{user}> {line}\n{told['messages'][-1].content}\n")


def main(place: str | Path) -> None:
    """State something on one day and ask on another; another user's agent knows nothing about it."""
    talk(place, [("ann", "Tamme services the engine of the launch in March.")])
    talk(place, [("ann", "Who services the engine?"), ("bo", "Who services the engine?")])


if __name__ == "__main__":
    # In production a folder that lasts, or postgresql://… where several processes or machines write.
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "memory")
