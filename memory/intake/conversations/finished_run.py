"""A turn of a thread as a trajectory, kept once (OPS-5, TRAJ-1)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from recall_loop.memory.intake.conversations.conversation import ConversationOwner
from recall_loop.memory.parsing.chat_messages import parse_messages
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
    owner: ConversationOwner,
    messages: Sequence[object],
    *,
    masking: Masking = DEFAULT_MASKING,
    now: datetime,
) -> str | None:
    """Write the thread's last turn, from the last user's message on, as a trajectory; return its id.

    A turn has the same id each time. The same turn again is left as it is, with the score that it may have by now; one
    that has grown since is rewritten and waits for a score. None if no user said anything.

    Raises:
        InvalidInputError: something among them is no message.
        StoreUnavailableError: the store fails.
    """
    parsed = parse_messages(messages)
    starts = [at for at, message in enumerate(parsed) if message.role is Role.USER and message.content.strip()]
    if not starts:
        return None
    turn = parsed[starts[-1] :]
    first, last = turn[0], turn[-1]
    answered = last.role is Role.ASSISTANT and bool(last.content.strip()) and not last.calls
    status = "completed" if answered else None
    info = RunInfo(run_id=owner.conversation_id, run_type=LANGGRAPH_RUN_TYPE, run_status=status)
    run = convert_messages(turn, info, masking).model_copy(update={"scoring_pending": True})
    record_id = owner.key("run", *(("id", first.id) if first.id else ("text", str(len(starts)), first.content)))
    with store.exclusive():
        known = next(iter(store.get([record_id], scope=Scope(tenant=owner.tenant))), None)
        if known is None or run_from_record(known).turns != run.turns:
            created = known.created_at if known is not None else first.timestamp or now
            fields: dict[str, Any] = {"created_at": created, "session": owner.session, **owner.owner_fields()}
            store.upsert([trajectory_record(run, id=record_id, **fields)], tenant=owner.tenant)
    return record_id
