"""A turn of a thread as a trajectory, kept once (OPS-5, TRAJ-1)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from recall_loop.memory.intake.conversations.conversation import ConversationOwner
from recall_loop.memory.parsing.chat_messages import SourceMessage, parse_message
from recall_loop.memory.trajectories.capture.convert import DEFAULT_MASKING, RunInfo, convert_messages
from recall_loop.memory.trajectories.capture.masking import Masking
from recall_loop.state.records.trajectories import run_from_record, trajectory_record
from recall_loop.state.scope import Scope
from recall_loop.state.types import Role

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore

LANGGRAPH_RUN_TYPE = "langgraph"


def record_turn(
    store: MemoryStore,
    place: ConversationOwner,
    messages: Sequence[object],
    *,
    masking: Masking = DEFAULT_MASKING,
    now: datetime,
) -> str | None:
    """Write the thread's last turn, from the last user's message on, as a trajectory; return its id.

    A turn has the same id each time. The same turn again is left as it is, with the score that it may have by now; one
    that has grown since is written anew and waits for a score. None where no user said anything.

    Raises:
        InvalidInputError: something among them is no message.
        StoreUnavailableError: the store fails.
    """
    heard = [part for at, given in enumerate(messages) for part in parse_message(given, f"messages.{at}")]
    starts = [at for at, one in enumerate(heard) if one.role is Role.USER and one.content.strip()]
    if not starts:
        return None
    turn = heard[starts[-1] :]
    answered = turn[-1].role is Role.ASSISTANT and bool(turn[-1].content.strip()) and not turn[-1].calls
    status = "completed" if answered else None
    info = RunInfo(run_id=place.conversation_id, run_type=LANGGRAPH_RUN_TYPE, run_status=status)
    run = convert_messages(turn, info, masking).model_copy(update={"scoring_pending": True})
    name = place.key("run", *_identity(turn[0], len(starts)))
    with store.exclusive():
        known = next(iter(store.get([name], scope=Scope(tenant=place.tenant))), None)
        if known is None or run_from_record(known).turns != run.turns:
            created = known.created_at if known is not None else turn[0].timestamp or now
            record = trajectory_record(run, id=name, created_at=created, session=place.session, **place.owner_fields())
            store.upsert([record], tenant=place.tenant)
    return name


def _identity(asked: SourceMessage, number: int) -> tuple[str, ...]:
    return ("id", asked.id) if asked.id else ("text", str(number), asked.content)
