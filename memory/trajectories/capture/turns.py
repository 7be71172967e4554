"""Where the turns of a run begin and end (TRAJ-1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recall_loop.memory.trajectories.capture.sources import SourceMessage
from recall_loop.state.types import Role


def group_turns(heard: Iterable[SourceMessage]) -> Iterator[list[SourceMessage]]:
    """Yield the messages of each turn, in order.

    Messages that name a step stay together with their neighbours of the same step. Among the others a turn
    starts where somebody speaks after a tool or after the agent, and with a user's (or system's) message
    that no such message comes right before: what was asked, what the agent said, what its tools gave.
    """
    turn: list[SourceMessage] = []
    for message in heard:
        if turn and _starts_turn(message, turn[-1]):
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn


def _starts_turn(message: SourceMessage, before: SourceMessage) -> bool:
    if message.step_id is not None or before.step_id is not None:
        return message.step_id != before.step_id
    if message.role is Role.TOOL:
        return False
    return before.role in (Role.TOOL, Role.ASSISTANT)
