"""Runs in the shapes from before execution status and learning value were separated (TRAJ-4).

Old records say `outcome: {type, confidence, reasoning}` (or `outcome: "success"`), with the score beside
it or inside, and often the whole run under `data`. They are still read, with a DeprecationWarning, until
`recall-loop trajectories migrate` has rewritten them. Whatever has no place in the new shape is kept
under `extra`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from recall_loop.state.types import ComplexityLevel, Role

# Old outcome.type -> execution.status. All four described how a run ended, none its learning value.
STATUS_OF_OLD_TYPE = {"success": "completed", "partial_success": "incomplete", "failure": "failed", "error": "error"}


# Paths of the score: the current one, then those from before `migrate`; the first one counts.
SCORE_PATHS = ("outcome_score", "data.outcome_score", "outcome.score", "data.outcome.score")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEW_NAMES = _names(
    "task summary execution outcome_score scoring scoring_pending scoring_error task_category complexity_level"
    " metadata turns extra"
)
_METADATA_NAMES = _names(
    "run_id start_time end_time duration_seconds step_count message_count tools_used input_tokens output_tokens"
    " models run_type stop_reason error extra"
)
_TURN_NAMES = _names("step_id model input_tokens output_tokens stop_reason messages")
_MESSAGE_NAMES = _names("role content name tool_calls tool_call_id timestamp error extra")
_OLD_ROLES = {"human": "user", "ai": "assistant", "function": "tool", "developer": "system"}
_UNNAMED = "(unnamed)"


def stored_score(attributes: Mapping[str, Any]) -> float | None:
    """Return the learning value that a trajectory's attributes hold, as filters read it; None if they hold none."""
    for path in SCORE_PATHS:
        value: Any = attributes
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if _is_unit(value):
            return float(value)
    return None


def is_legacy(attributes: Mapping[str, Any]) -> bool:
    """Return whether `attributes` hold a run in an old shape."""
    if "outcome" in attributes:
        return True
    data = attributes.get("data")
    return isinstance(data, Mapping) and ("outcome" in data or "turns" in data)


def upgrade_legacy(attributes: Mapping[str, Any], *, warn: bool = True) -> dict[str, Any]:
    """Return an old shape's run in the new shape; nothing of it is lost.

    Values keep their form: what doesn't validate in the new shape is for the caller to set aside.
    """
    if warn:
        message = "outcome.type is now execution.status: run `recall-loop trajectories migrate`"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
    data = attributes.get("data")
    inner = dict(data) if isinstance(data, Mapping) else {}
    old = {**inner, **{name: value for name, value in attributes.items() if name != "data" or not inner}}
    new = {name: value for name, value in old.items() if name in _NEW_NAMES and value is not None}
    rest = {name: value for name, value in old.items() if name not in _NEW_NAMES}
    rest |= {f"data.{name}": inner[name] for name in inner if name in attributes and attributes[name] != inner[name]}
    new["metadata"] = _metadata(old.get("metadata"), rest)
    _outcome(new, rest)
    if new.get("outcome_score") is not None and "scoring" not in new:  # an old score doesn't name its scorer
        new["scoring"] = {"scorer": "legacy", "reasoning": str(rest.pop("score_reasoning", None) or "")}
    if isinstance(rest.get("searchable_summary"), str) and "summary" not in new:
        new["summary"] = rest.pop("searchable_summary")
    if "turns" in new:
        new["turns"] = turns = _turns(new["turns"], rest)
        known = turns if isinstance(turns, list) else []
        new["metadata"].setdefault("step_count", len(known))
        new["metadata"].setdefault("message_count", sum(len(turn["messages"]) for turn in known))
    level = new.get("complexity_level", "simple")
    if not isinstance(level, str) or level not in frozenset(ComplexityLevel):
        rest["complexity_level"] = new.pop("complexity_level")
    new["extra"] = merge_extra(new.get("extra"), rest)
    return new


def _outcome(new: dict[str, Any], rest: dict[str, Any]) -> None:
    """Turn `outcome` into `execution`; a record that has both (the old migration's first phase) keeps its new one."""
    outcome = rest.pop("outcome", None)
    old = dict(outcome) if isinstance(outcome, Mapping) else {"type": outcome}
    kind = old.pop("type", None)
    score = old.pop("score", None)
    if new.get("outcome_score") is None and _is_unit(score):
        new["outcome_score"] = score
    elif score is not None:
        old["score"] = score
    if "execution" not in new:
        new["execution"] = _execution(kind, old)
    elif kind is not None:
        rest["outcome_type"] = kind
    if old:
        rest["outcome"] = old


def _execution(kind: object, old: dict[str, Any]) -> dict[str, Any]:
    """Translate how an old run ended; removes the used fields from `old`."""
    status = STATUS_OF_OLD_TYPE.get(str(kind), "unknown")
    given = old.pop("reasoning", None) or ()
    reasons = [str(reason) for reason in given] if isinstance(given, list | tuple) else [str(given)]
    execution = {"status": status, "reasoning": "; ".join([*reasons, f"from the old outcome type {kind!r}"])}
    if _is_unit(old.get("confidence")):
        execution["confidence"] = old.pop("confidence")
    return execution


def _metadata(old: object, rest: dict[str, Any]) -> dict[str, Any]:
    """Rename `duration` and `tokens`; keep other names under `extra`."""
    if not isinstance(old, Mapping):
        if old is not None:
            rest["metadata"] = old
        return {"run_id": str(rest.pop("run_id"))} if rest.get("run_id") else {}
    renamed = dict(old)
    if rest.get("run_id") and "run_id" not in renamed:
        renamed["run_id"] = str(rest.pop("run_id"))
    for name, given in (("duration", "duration_seconds"), ("prompt_tokens", "input_tokens")):
        if name in renamed and given not in renamed:
            renamed[given] = renamed.pop(name)
    known = {name: value for name, value in renamed.items() if name in _METADATA_NAMES and value is not None}
    others = {name: value for name, value in renamed.items() if name not in _METADATA_NAMES and value is not None}
    if others:
        known["extra"] = merge_extra(known.get("extra"), others)
    return known


def merge_extra(extra: object, others: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept under `extra` with `others` added; an `extra` that holds no fields goes under its name."""
    known = dict(extra) if isinstance(extra, Mapping) else {} if extra is None else {"extra": extra}
    for name, value in others.items():
        kept = name
        while kept in known and known[kept] != value:
            kept = f"old.{kept}"  # if a name has two values, both are kept
        known[kept] = value
    return known


def _turns(old: object, rest: dict[str, Any]) -> object:
    """Convert each turn; fields without a place there go to `rest`, under `turns.` and its number."""
    if not isinstance(old, list):
        return old
    turns = []
    for number, turn in enumerate(old):
        messages = turn.get("messages") or [] if isinstance(turn, Mapping) else None
        if not isinstance(messages, list) or not all(isinstance(each, Mapping) for each in messages):
            rest[f"turns.{number}"] = turn  # an unreadable one must not displace the others
            continue
        new = {name: value for name, value in turn.items() if name in _TURN_NAMES}
        new["messages"] = [_message(each) for each in messages]
        others = {name: value for name, value in turn.items() if name not in _TURN_NAMES}
        if others and messages:
            first = new["messages"][0]
            first["extra"] = merge_extra(first.get("extra"), {"turn": others})
        elif others:
            rest[f"turns.{number}"] = others
        turns.append(new)
    return turns


def _message(old: Mapping[str, Any]) -> dict[str, Any]:
    message = {name: value for name, value in old.items() if name in _MESSAGE_NAMES and value is not None}
    others = {name: value for name, value in old.items() if name not in _MESSAGE_NAMES}
    if not isinstance(message.get("content", ""), str):
        others["content"] = message["content"]
        message["content"] = _text(message["content"])
    role = message.get("role")
    if not isinstance(role, str) or role not in frozenset(Role):
        others |= {"role": role} if role is not None else {}
        message["role"] = _OLD_ROLES.get(role, "assistant") if isinstance(role, str) else "assistant"
    if isinstance(message.get("tool_calls"), list):
        calls = message["tool_calls"]
        message["tool_calls"] = [_call(call) for call in calls if isinstance(call, Mapping)]
        odd = [call for call in calls if not isinstance(call, Mapping)]
        others |= {"tool_calls": odd} if odd else {}
    for name in ("name", "tool_call_id", "error", "tool_calls"):
        if name in message and not isinstance(message[name], list if name == "tool_calls" else str):
            others[name] = message.pop(name)
    return message | ({"extra": merge_extra(message.get("extra"), others)} if others or "extra" in message else {})


def _text(content: object) -> str:
    """Return the text of content that was kept as blocks."""
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") if isinstance(block, Mapping) else block for block in blocks]
    return "\n".join(text for text in texts if isinstance(text, str))


def _call(old: Mapping[str, Any]) -> dict[str, Any]:
    """Take name and arguments out of `function`, where old records kept them."""
    function = old.get("function")
    flat = {**old, **function} if isinstance(function, Mapping) else dict(old)
    left = {name: value for name, value in flat.items() if value is not None}
    if isinstance(function, Mapping):
        del left["function"]
    if left.get("type") in ("function", "tool_call"):
        del left["type"]
    types: dict[str, type | tuple[type, ...]] = {"name": str, "arguments": (str, Mapping), "id": str, "error": str}
    call = {name: left.pop(name) for name, type_ in types.items() if isinstance(left.get(name), type_)}
    if isinstance(function, Mapping):
        left |= {f"old.{name}": old[name] for name in function if old.get(name) not in (None, function[name])}
    return {"name": _UNNAMED, **call} | ({"extra": left} if left else {})


def _is_unit(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
