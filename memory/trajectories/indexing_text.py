"""The indexed text of a run: the task in the users' words, then the work (TRAJ-5).

Whoever searches describes a situation, so the users' messages come first: an embedder reads only the first few hundred
tokens. The tools follow as words, in the order of their first use, what errors said and what was called then, and how
it ended. Of long messages the beginning stands there, and the rest behind all that. Replies and tool results stay out:
they are many times as long, and much the same in every run. The store gives the parts of a long text vectors of their
own (GUARD-8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from recall_loop.state.records.records import Record
from recall_loop.state.records.trajectories import RunData, ToolUse, TurnMessage, run_from_record
from recall_loop.state.scope import ExecutionStatus
from recall_loop.state.types import Role

# Characters of a message's beginning, and in total: a pasted document must not displace everything else.
_BEGINNING_CHARS = 300
_MAX_CHARS = 20_000
# An error's first line says what failed, and the last line of a traceback why.
_ERROR_HEAD, _ERROR_TAIL, _MAX_ERRORS = 200, 200, 20
# A name such as `get_userDetails.v2` is made of words for a reader, and has to be for the index.
_JOINTS = re.compile(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])")
_ERROR_MARK = re.compile(r"\A\s*error:\s*", re.IGNORECASE)
_RULES = "rules"
_ERROR, _THEN, _ENDING = "Error: ", "Then: ", "Execution: "
_ENDINGS = frozenset(f"{_ENDING}{status.value}" for status in ExecutionStatus)


def searchable_text(run: RunData) -> str:
    """Return the text of a run for indexing, embedding and display; never blank."""
    texts = list(dict.fromkeys(" ".join(text.split()) for text in _user_texts(run)))
    parts = list(dict.fromkeys(text[:_BEGINNING_CHARS] for text in texts))
    if run.metadata.tools_used:
        parts.append("Tools: " + ", ".join(split_identifier(name) for name in run.metadata.tools_used))
    parts += _errors(run)
    parts.append(f"{_ENDING}{run.execution.status.value}")
    parts += _rests(texts, _MAX_CHARS - sum(len(part) + 1 for part in parts))
    return "\n".join(part for part in parts if part)[:_MAX_CHARS]


def _rests(texts: Iterable[str], room: int) -> list[str]:
    """Return what follows the beginnings of long texts, from the word that is cut, in fair shares of `room`."""
    rests = [text[_word_start(text, _BEGINNING_CHARS) :] for text in texts if len(text) > _BEGINNING_CHARS]
    taken: dict[int, str] = {}
    for place, number in enumerate(sorted(range(len(rests)), key=lambda at: len(rests[at]))):
        share = max(room // (len(rests) - place) - 1, 0)
        taken[number] = rests[number][:share]
        room -= len(taken[number]) + 1
    return [taken[number] for number in range(len(rests))]


def _shortened(error: str) -> str:
    if len(error) <= _ERROR_HEAD + _ERROR_TAIL:
        return error
    return f"{error[:_ERROR_HEAD]} … {error[_word_start(error, len(error) - _ERROR_TAIL) :]}"


@dataclass
class _Step:
    """A tool call with what went wrong in it, or an error without a call."""

    call: ToolUse | None
    error: str | None


def _errors(run: RunData) -> list[str]:
    """Return different errors, in order, each with what was called then; the run's own is last."""
    steps = [*_steps(run), _Step(None, run.metadata.error)]
    found: dict[str, str] = {}
    for at, step in enumerate(steps):
        text = _shortened(" ".join(_ERROR_MARK.sub("", step.error or "", count=1).split()))
        if text and text not in found:
            following = next((each.call for each in steps[at + 1 :] if each.call and not each.error), None)
            then = f"\n{_THEN}{_described(following, step.call)}" if following else ""
            found[text] = f"{_ERROR}{text}{then}"
    return list(found.values())[:_MAX_ERRORS]


def error_notes(text: str) -> list[str]:
    """Return the errors that a text by `searchable_text` tells of, each with what was called then; else none."""
    lines = text.splitlines()
    ending = next((at for at, line in enumerate(lines) if line in _ENDINGS), 0)
    notes: list[str] = []
    for line in reversed(lines[:ending]):
        if not line.startswith((_ERROR, _THEN)):
            break
        if notes and notes[0].startswith(_THEN):
            notes[0] = f"{line}. {notes[0]}"
        else:
            notes.insert(0, line)
    return notes


def _steps(run: RunData) -> list[_Step]:
    """Return the tool calls of a run, and errors; that of a result belongs to its call."""
    steps: list[_Step] = []
    for message in run.messages():
        steps += [_Step(call, call.error) for call in message.tool_calls]
        if message.error:
            failed = _call_of(message, steps)
            if failed is None:
                steps.append(_Step(None, message.error))
            else:
                failed.error = message.error
    return steps


def _call_of(message: TurnMessage, steps: Sequence[_Step]) -> _Step | None:
    """Return the call that a tool's message is the result of: by its id, else the last one that has no error yet."""
    if message.role is not Role.TOOL:
        return None
    calls = [step for step in steps if step.call and not step.error]
    own = [step for step in calls if step.call and message.tool_call_id and step.call.id == message.tool_call_id]
    return next(reversed(own or calls), None)


def _described(call: ToolUse, failed: ToolUse | None) -> str:
    """Return a call as words: its tool, and the names of its arguments that the failed call hadn't or had otherwise."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    before = failed.arguments if failed and failed.name == call.name and isinstance(failed.arguments, dict) else {}
    names = [split_identifier(name) for name, value in arguments.items() if name not in before or before[name] != value]
    return split_identifier(call.name) + (f" with {', '.join(names)}" if names else "")


def _word_start(text: str, at: int) -> int:
    """Return where the word begins that stands at a place; the place itself in text without blanks."""
    blank = text.rfind(" ", 0, at)
    return at if blank < 0 else blank + 1


def _user_texts(run: RunData) -> Iterator[str]:
    """Yield the task, the summary and the users' messages; a summary by rules would only repeat the rest."""
    yield run.task
    if run.summary and not (run.scoring and run.scoring.scorer.startswith(_RULES)):
        yield run.summary
    yield from (message.content for message in run.messages() if message.role is Role.USER)


def split_identifier(name: str) -> str:
    """Return the name of a tool as words."""
    return " ".join(part for part in _JOINTS.split(name) if part) or name


def updated_text(record: Record, run: RunData) -> str:
    """Return the text of a record whose run has become `run`; a text from elsewhere stays."""
    return searchable_text(run) if record.text == searchable_text(run_from_record(record)) else record.text
