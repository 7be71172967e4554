"""This agent's own runs as trajectories (TRAJ-9), with what each strategy and query found."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic import JsonValue

from recall_loop.memory.parsing.chat_messages import SourceMessage
from recall_loop.memory.parsing.foreign_json import to_json_value
from recall_loop.memory.parsing.tool_calls import RawCall
from recall_loop.memory.store.encoding.indexing import text_hash
from recall_loop.memory.trajectories.capture.convert import DEFAULT_MASKING, RunInfo, convert_messages
from recall_loop.state.records.records import Trajectory
from recall_loop.state.records.trajectories import trajectory_record
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import RetrieveResult
from recall_loop.state.types import Role, StopReason

RETRIEVAL_RUN_TYPE = "retrieval"
SELF_CAPTURE_TAG = "recall-loop-run"
_NOT_FINISHED = {StopReason.TOOL_FAILURE, StopReason.DEADLINE, StopReason.ITERATION_LIMIT, StopReason.STEP_LIMIT}


def capture_run(result: RetrieveResult, request: RetrieveRequest, *, finished_at: datetime | None = None) -> Trajectory:
    """Return a retrieval run as the record to be stored.

    `finished_at` is when it ended; absent, the request's reference time, which a replay may set far back.

    With the trace of a `debug` result the run holds every call with its queries, and `extra` holds what
    planning needs: new facts and results by strategy and by query. Without one it holds the counters only.
    Facts are named by id, never copied: deleting a memory deletes it.
    """
    trace = result.metadata.get("trace")
    calls = trace.get("tool_calls", []) if isinstance(trace, Mapping) else []
    outcomes = trace.get("query_results", []) if isinstance(trace, Mapping) else []
    info = _run_info(result, request, calls, finished_at or result.reference_time)
    run = convert_messages(_conversation(result, request, calls), info, DEFAULT_MASKING)
    extra = DEFAULT_MASKING.value({"strategies": _strategies(calls), "queries": _queries(outcomes)})
    identity = text_hash(f"{request.tenant}\n{result.request_id}").hex()
    return trajectory_record(
        run.model_copy(update={"extra": extra}),
        id=f"run-{identity}",
        text=run.task,  # a similar request is found by the text of the question
        tags=(SELF_CAPTURE_TAG,),
        agent_id=request.agent_id,
        user_id=request.user_id,
        conversation_id=request.conversation_id,
    )


def _run_info(
    result: RetrieveResult, request: RetrieveRequest, calls: Sequence[Mapping[str, Any]], ended: datetime
) -> RunInfo:
    failed = result.stop.reason is StopReason.TOOL_FAILURE
    question, duration = request.question.content, float(result.metadata.get("duration_ms") or 0.0) / 1000
    counters = {name: value for name, value in result.metadata.items() if name not in ("trace", "duration_ms")}
    return RunInfo(
        run_id=result.request_id,
        task=f"{question}\nGoal: {request.goal}" if request.goal else question,
        run_status=None if failed else "completed",
        stop_reason=_stop_word(result.stop.reason),
        error=_last_error(calls) if failed else None,
        start_time=ended - timedelta(seconds=duration),
        end_time=ended,
        duration_seconds=duration,
        output_tokens=result.metadata.get("llm_tokens") or None,
        run_type=RETRIEVAL_RUN_TYPE,
        extra={"stop": str(result.stop.reason), **counters, "facts": [fact.id for fact in result.facts]},
    )


def _stop_word(reason: StopReason) -> str:
    """Return a stop reason in the vocabulary of `execution_status`; the original one is in `extra`."""
    return str(reason) if reason in _NOT_FINISHED else "end_turn"


def _last_error(calls: Iterable[Mapping[str, Any]]) -> str:
    errors = [str(call["error"]) for call in calls if call.get("error")]
    return errors[-1] if errors else "The memory could not be searched."


def _conversation(
    result: RetrieveResult, request: RetrieveRequest, calls: Sequence[Mapping[str, Any]]
) -> list[SourceMessage]:
    """Return the run as a conversation: the question, each call with its result, a summary."""
    messages = [
        SourceMessage(message.role, message.content, message.author, timestamp=message.timestamp)
        for message in request.messages
    ]
    for number, call in enumerate(calls, start=1):
        step, call_id = str(call.get("iteration", number)), f"call-{number}"
        arguments = {"strategy": call.get("strategy"), **call.get("input", {})}
        raw = RawCall(str(call.get("name")), {key: to_json_value(value) for key, value in arguments.items()}, call_id)
        messages.append(SourceMessage(Role.ASSISTANT, calls=[raw], step_id=step))
        text = (
            f"{call.get('result_count', 0)} results, {call.get('new_facts', 0)} new facts, "
            f"mean similarity {call.get('mean_similarity', 0.0):.2f}"
        )
        messages.append(SourceMessage(Role.TOOL, text, raw.name, [], call_id, error=call.get("error"), step_id=step))
    ids = ", ".join(fact.id for fact in result.facts[:30]) or "nothing"
    summary = f"Found {len(result.facts)} facts: {ids}"  # not the answer: it repeats the memories' text
    messages.append(SourceMessage(Role.ASSISTANT, summary, stop_reason=_stop_word(result.stop.reason)))
    return messages


def _strategies(calls: Iterable[Mapping[str, Any]]) -> JsonValue:
    """Return calls, results and new facts by strategy, in the order in which they were tried."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for call in calls:
        results, new_facts = int(call.get("result_count") or 0), int(call.get("new_facts") or 0)
        totals[str(call.get("strategy"))].update(calls=1, results=results, new_facts=new_facts)
    return to_json_value(totals)


def _queries(outcomes: Iterable[Mapping[str, Any]]) -> JsonValue:
    """Return the results of each query, oldest first."""
    names = ("query", "source", "strategy", "iteration", "tool", "results", "new_facts", "error")
    return to_json_value([{name: one[name] for name in names if one.get(name) is not None} for one in outcomes])
